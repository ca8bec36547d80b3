//! Places in a line: the engine against the reference, and every schedule of small lines.
//!
//! 1. Every place has the turn that the reference names, through changes of quota, refunds, resets and
//!    clocks that go back; whoever is refused is told the same.
//! 2. Over all states that a small line can come to, by any calls in any order: what departs at its
//!    turn and what is admitted at once is within `burst + t` in every interval, turns come in order,
//!    and a plain call is refused while anybody waits.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, KeyedLimiter, Limiter, Quota, Turn, WaitError};

use crate::properties::{arb_move, arb_quota, cases, moved};
use crate::reference::{Answer, Reference};

const BUCKETS: [Algorithm; 3] = [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket];

#[derive(Clone, Debug)]
enum Step {
    LineUp { cost: u64, max: u64 },
    GiveUp(prop::sample::Index),
    Check(u64),
    Refund(u64),
    Reset,
    SetQuota(Quota),
}

fn arb_step() -> impl Strategy<Value = Step> {
    let cost = prop_oneof![9 => 1..4_u64, 1 => 0..120_u64, 1 => Just(u64::MAX)];
    let max = prop_oneof![
        1 => 0..10_u64,
        4 => 0..20_000_000_000_u64,
        2 => 0..50_000_000_000_000_u64,
        1 => Just(u64::MAX),
    ];
    prop_oneof![
        10 => (cost.clone(), max).prop_map(|(cost, max)| Step::LineUp { cost, max }),
        4 => any::<prop::sample::Index>().prop_map(Step::GiveUp),
        4 => cost.clone().prop_map(Step::Check),
        2 => cost.prop_map(Step::Refund),
        1 => Just(Step::Reset),
        2 => arb_quota().prop_map(Step::SetQuota),
    ]
}

/// Two engines and the reference, and the places in their lines.
struct Three<'a> {
    one: &'a Limiter,
    keyed: &'a KeyedLimiter<u8>,
    reference: Reference,
    places: Vec<(Turn<'a>, Turn<'a>, usize)>,
}

impl Three<'_> {
    fn step(&mut self, step: &Step, now: u64) -> Result<(), TestCaseError> {
        let Three { one, keyed, reference, places } = self;
        match *step {
            Step::LineUp { cost: 0, max } => {
                let mut turn = one.line_up_at(0, Duration::from_nanos(max), now).unwrap();
                prop_assert_eq!(turn.remaining_at(now), Ok(None));
            }
            Step::LineUp { cost, max } => {
                let max = Duration::from_nanos(max);
                let first = one.line_up_at(cost, max, now);
                let second = keyed.line_up_at(&7, cost, max, now);
                match reference.line_up(cost, max, now) {
                    Ok(place) => places.push((first.unwrap(), second.unwrap(), place)),
                    Err(error) => {
                        prop_assert_eq!(first.err(), Some(error));
                        prop_assert_eq!(second.err(), Some(error));
                    }
                }
            }
            Step::GiveUp(_) if places.is_empty() => {}
            Step::GiveUp(index) => {
                let (first, second, place) = places.swap_remove(index.index(places.len()));
                first.give_up_at(now);
                second.give_up_at(now);
                reference.give_up(place, now);
            }
            Step::Check(cost) => {
                let answer = reference.check(cost, now);
                prop_assert_eq!(Answer::from(&one.check_at(cost, now)), answer);
                prop_assert_eq!(Answer::from(&keyed.check_at(&7, cost, now)), answer);
            }
            Step::Refund(tokens) => {
                one.refund_at(tokens, now);
                keyed.refund_at(&7, tokens, now);
                reference.refund(tokens, now);
            }
            Step::Reset => {
                one.reset_at(now);
                keyed.reset_at(&7, now);
                reference.reset();
            }
            Step::SetQuota(quota) => {
                one.set_quota_at(quota, now).unwrap();
                keyed.set_quota_at(quota, now).unwrap();
                reference.set_quota(quota, now);
            }
        }
        self.compare(now)
    }

    fn compare(&mut self, now: u64) -> Result<(), TestCaseError> {
        let Three { one, keyed, reference, places } = self;
        let mut left = Vec::new();
        for (first, second, place) in places.drain(..) {
            let (mut first, mut second) = (first, second);
            let remaining = reference.remaining(place, now);
            prop_assert_eq!(first.remaining_at(now), remaining, "place {} at {}", place, now);
            prop_assert_eq!(second.remaining_at(now), remaining, "place {} at {}", place, now);
            if remaining != Ok(None) {
                left.push((first, second, place));
            }
        }
        *places = left;
        let plain = Answer { delay: 0, ..reference.peek(1, now) };
        let peek = Answer::from(&one.peek_at(1, now));
        prop_assert_eq!(Answer { delay: 0, ..peek }, plain);
        let peek = Answer::from(&keyed.peek_at(&7, 1, now));
        prop_assert_eq!(Answer { delay: 0, ..peek }, plain);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// 1.
    #[test]
    fn places_have_the_turns_of_the_reference(
        algorithm in prop::sample::select(&BUCKETS[..]),
        quota in arb_quota(),
        steps in prop::collection::vec((arb_move(true), arb_step()), 1..60),
    ) {
        let builder = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0);
        let one = builder.build().unwrap();
        let builder = KeyedLimiter::builder(quota).algorithm(algorithm);
        let keyed = builder.capacity(12).clock(Clock::manual().0).build().unwrap();
        let reference = Reference::new(algorithm, quota);
        let mut three = Three { one: &one, keyed: &keyed, reference, places: Vec::new() };
        let mut now = 0;
        for (by, step) in steps {
            now = moved(now, by);
            three.step(&step, now)?;
        }
    }
}

const SECOND: u64 = 1_000_000_000;

/// The time of half a token.
const TICK: u64 = SECOND / 2;

/// What can be done next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Tick,
    Check(u64),
    LineUp(u64),
    GiveUp(usize),
}

/// One token a second, one limiter, and who waits in its line, in order.
struct World<'a> {
    algorithm: Algorithm,
    burst: u64,
    /// The longest wait, in seconds.
    max: u64,
    limiter: &'a Limiter,
    now: u64,
    waiting: Vec<(u64, Turn<'a>)>,
    /// By how many half tokens what has gone through exceeds what was earned, at the most, over all
    /// intervals that end now.
    excess: u64,
}

impl World<'_> {
    fn acts(&self) -> Vec<Act> {
        let costs = 1..=self.burst.min(2);
        let mut acts = vec![Act::Tick];
        // Who does not wait does not hold to a queue's departures either.
        if self.algorithm != Algorithm::LeakyBucket {
            acts.extend(costs.clone().map(Act::Check));
        }
        acts.extend(costs.map(Act::LineUp));
        acts.extend((0..self.waiting.len()).map(Act::GiveUp));
        acts
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Tick => {
                self.now += TICK;
                self.excess = self.excess.saturating_sub(1);
                self.depart();
            }
            Act::Check(cost) => {
                if self.limiter.check_at(cost, self.now).is_allowed() {
                    assert!(self.waiting.is_empty(), "a plain call has overtaken a line");
                    self.pass(cost);
                }
            }
            Act::LineUp(cost) => {
                let max = Duration::from_secs(self.max);
                if let Ok(turn) = self.limiter.line_up_at(cost, max, self.now) {
                    self.waiting.push((cost, turn));
                    self.depart();
                }
            }
            Act::GiveUp(place) => self.waiting.remove(place).1.give_up_at(self.now),
        }
    }

    /// Those whose turn has come go, in order.
    fn depart(&mut self) {
        let now = self.now;
        let is_due = |(_, turn): &mut (u64, Turn<'_>)| turn.remaining_at(now) == Ok(None);
        let due: Vec<bool> = self.waiting.iter_mut().map(is_due).collect();
        let count = due.iter().take_while(|&&is_due| is_due).count();
        assert!(due[count..].iter().all(|&is_due| !is_due), "a turn comes before an earlier one");
        for (cost, _) in self.waiting.drain(..count).collect::<Vec<_>>() {
            self.pass(cost);
        }
    }

    fn pass(&mut self, cost: u64) {
        // From a queue one call goes at a time, and the next when its tokens have come back.
        let most = if self.algorithm == Algorithm::LeakyBucket { cost } else { self.burst };
        self.excess += 2 * cost;
        let halves = self.excess;
        assert!(halves <= 2 * most, "{halves} half tokens at once, of {most} whole ones");
    }

    /// All that the future depends on.
    fn state(&mut self) -> (u128, u64, Vec<(u64, u128)>) {
        let debt = self.limiter.peek_at(1, self.now).reset_after().unwrap().as_millis();
        let now = self.now;
        let places = self
            .waiting
            .iter_mut()
            .map(|(cost, turn)| (*cost, turn.remaining_at(now).unwrap().unwrap().as_millis()));
        (debt, self.excess, places.collect())
    }
}

/// Visits every state, and returns how many there are.
fn search(algorithm: Algorithm, burst: u64, max: u64) -> usize {
    let mut seen = BTreeSet::new();
    let mut paths = VecDeque::from([Vec::new()]);
    while let Some(path) = paths.pop_front() {
        let builder = Limiter::builder(Quota::per_second(1).burst(burst)).algorithm(algorithm);
        let limiter = builder.clock(Clock::manual().0).build().unwrap();
        let (waiting, now) = (Vec::new(), 1_000 * SECOND);
        let mut world = World { algorithm, burst, max, limiter: &limiter, now, waiting, excess: 0 };
        for &act in &path {
            world.act(act);
        }
        if seen.insert(world.state()) {
            paths.extend(world.acts().into_iter().map(|act| [path.as_slice(), &[act]].concat()));
        }
        // Nobody gives anything up that counts: the limiter goes with them.
        world.waiting.drain(..).for_each(|(_, turn)| std::mem::forget(turn));
    }
    seen.len()
}

/// 2.
#[test]
fn every_schedule_of_a_small_line_keeps_the_quota_in_every_interval() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra] {
        for (burst, max) in [(1, 1), (1, 5), (2, 3), (2, 5), (3, 4), (4, 3)] {
            let states = search(algorithm, burst, max);
            println!("{states} states with a burst of {burst} and waits up to {max}");
            // Every half token that can be owed, and more.
            assert!(states as u64 > 2 * (burst + max));
        }
    }
}

/// 2, for a queue: never two at once, and the next when the tokens of the last have come back.
#[test]
fn every_schedule_of_a_small_queue_departs_evenly() {
    for (burst, max) in [(1, 3), (3, 2), (4, 9), (5, 4)] {
        let states = search(Algorithm::LeakyBucket, burst, max);
        println!("{states} states with a burst of {burst} and waits up to {max}");
        assert!(states as u64 > 2 * burst.min(max));
    }
}

/// Threads that line up at one moment and leave at random: those who stay have turns of their own, the
/// burst at once and then one a second.
#[test]
fn threads_that_stay_have_turns_of_their_own() {
    const THREADS: u64 = 4;
    let calls = if cfg!(debug_assertions) { 300 } else { 3_000 };
    let limiter: KeyedLimiter<u8> = KeyedLimiter::builder(Quota::per_second(1).burst(5))
        .clock(Clock::manual().0)
        .build()
        .unwrap();
    let now = 7 * SECOND;
    let max = Duration::from_secs(1_000_000);
    let stay = |seed: u64| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut held: Vec<Turn<'_>> = Vec::new();
        for _ in 0..calls {
            held.push(limiter.line_up_at(&7, 1, max, now).unwrap());
            if random.u8(..3) == 0 {
                held.swap_remove(random.usize(..held.len())).give_up_at(now);
            }
        }
        let mut turns = Vec::new();
        for mut turn in held {
            turns.push(turn.remaining_at(now).unwrap().unwrap_or_default().as_nanos() as u64);
            std::mem::forget(turn);
        }
        turns
    };
    let mut turns: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || stay(seed))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    turns.sort_unstable();
    let at_once = turns.iter().take_while(|&&turn| turn == 0).count();
    assert!(at_once <= 5, "{at_once} at once");
    assert!(turns[at_once..].windows(2).all(|pair| pair[1] - pair[0] >= SECOND));
    assert!(turns.len() as u64 > THREADS * calls / 2);
}

#[test]
fn windows_have_no_lines() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowLog] {
        let builder = Limiter::builder(Quota::per_second(1)).algorithm(algorithm);
        let limiter = builder.clock(Clock::manual().0).build().unwrap();
        let error = limiter.line_up_at(1, Duration::ZERO, 0).err();
        assert_eq!(error, Some(WaitError::Algorithm { algorithm }));
    }
}
