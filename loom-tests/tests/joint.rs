//! Several limits in one call: all admit, or nothing is charged, whoever comes between.
//!
//! Where the clock moves, what was kept is held against the limit in every interval, as the sums are
//! right even where tokens are spent twice. Two threads have three preemptions, but one where a key is
//! evicted, and three threads one or two; in a deep run all have three.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use tollgate::{Algorithm, Clock, KeyedLimiter, Limiter, Overflow, Quota, check_all, check_all_at};
use tollgate_loom_tests::{
    Action, Change, NOW, Opener, SECOND, assert_within, at_steps, changes, debt, explore,
    explore_deep, gate, kept, meet, race, race_of_three, takes, two_cells,
};

const ONE: Quota = Quota::per_second(1).burst(1);
const TWO: Quota = Quota::per_second(1).burst(2);
/// Does not come back within a model.
const SLOW: Quota = Quota::per_hour(1);
const THREE: Quota = Quota::per_second(1).burst(3);

/// Limits in the order in which they are charged, which is that of their addresses.
fn limits<const N: usize>(quotas: [Quota; N], clock: &Clock) -> Arc<[Limiter; N]> {
    let limit = |quota| Limiter::builder(quota).clock(clock.clone()).origin(Duration::ZERO);
    // By way of the heap: the stacks of loom's threads are small.
    let limits: Vec<Limiter> = quotas.iter().map(|&quota| limit(quota).build().unwrap()).collect();
    Arc::from(<Box<[Limiter; N]>>::try_from(limits).expect("as many limits as quotas"))
}

/// A limit that is charged after those of keys: addresses alone would differ from one execution to the
/// next, and loom needs the same operations in each.
fn charged_last(quota: Quota) -> Arc<Limiter> {
    let builder = Limiter::builder(quota).algorithm(Algorithm::SlidingWindowLog);
    Arc::new(builder.clock(Clock::manual().0).origin(Duration::ZERO).build().unwrap())
}

fn owes(limiter: &Limiter, now: u64) -> u64 {
    limiter.peek_at(1, now).reset_after().expect("no quota of these models is 0").as_secs()
}

/// A token of both, at `NOW`.
fn takes_both(one: &Limiter, other: &Limiter) -> bool {
    check_all_at(&mut [one.ask(1), other.ask(1)], NOW).is_allowed()
}

/// Has the next joint call of this thread outrun, by what is done after it has looked; and has something
/// else done before it takes its charges back.
fn is_outrun(outrun: impl FnOnce() + 'static, then: Action) {
    at_steps([("joint: looked", Box::new(outrun)), ("joint: takes back", then)]);
}

/// Uses up the limit at this place.
fn used_up<const N: usize>(limits: &Arc<[Limiter; N]>, at: usize) -> impl FnOnce() + 'static {
    let limits = Arc::clone(limits);
    move || assert!(limits[at].check().is_allowed())
}

/// Asks for a token of the first limit and of one that is used up after it was looked at.
fn is_refused_late<const N: usize>(limits: &Arc<[Limiter; N]>, at: usize, then: Action) {
    is_outrun(used_up(limits, at), then);
    let mut asks = [limits[0].ask(1), limits[at].ask(1)];
    assert!(!check_all(&mut asks).is_allowed());
}

/// C1. Two calls want the same two tokens, and name them in opposite orders.
#[test]
fn two_calls_for_the_same_tokens_do_not_refuse_each_other() {
    explore("joint: opposite orders", Some(3), || {
        let both = limits([ONE, ONE], &Clock::manual().0);
        let (here, there) = race(&both, |[x, y]| takes_both(x, y), |[x, y]| takes_both(y, x));
        assert!(here != there, "here: {here}, there: {there}");
        assert!(both.iter().all(|limit| owes(limit, NOW) == 1));
    });
}

/// C2. A call for two tokens, and one for each of them: no token is kept twice, and what nobody keeps
/// is there again.
#[test]
fn a_late_refusal_charges_nothing() {
    explore_deep("joint: three threads, both tokens and each", 2, Some(3), || {
        let both = limits([ONE, ONE], &Clock::manual().0);
        let single = |limit: &Limiter| limit.check_at(1, NOW).is_allowed();
        let (joint, x, y) = race_of_three(
            &both,
            |[x, y]| takes_both(x, y),
            move |[x, _]| single(x),
            move |[_, y]| single(y),
        );
        assert!(joint || x || y, "nobody passes");
        for (limit, is_taken) in both.iter().zip([x, y]) {
            assert!(!(joint && is_taken), "a token for two: x: {x}, y: {y}");
            assert_eq!(owes(limit, NOW), u64::from(joint || is_taken));
        }
    });
}

/// C3. A charge is taken back while time gives back what it gives back.
#[test]
fn what_time_has_given_back_is_not_given_back_twice() {
    explore("joint: take back against charges and the clock", Some(3), || {
        let (clock, time) = Clock::manual();
        let both = limits([TWO, SLOW], &clock);
        let refused = {
            let both = Arc::clone(&both);
            thread::spawn(move || is_refused_late(&both, 1, Box::new(|| {})))
        };
        time.advance(Duration::from_secs(1));
        let charge = |tokens| kept(&time, tokens, || both[0].check_n(tokens).is_allowed());
        let first = charge(2);
        refused.join().unwrap();
        assert_within(2, &[first, charge(2), charge(1)]);
    });
}

/// C4. Two charges stand on each other, and both are taken back, beside charges and a clock that moves.
#[test]
fn two_charges_that_are_taken_back_give_nothing_twice() {
    explore_deep("joint: three threads, two are taken back", 1, Some(3), || two_taken_back(false));
}

/// C6. The same where both charges stand already.
#[test]
fn two_charges_that_stand_and_are_taken_back_give_nothing_twice() {
    explore_deep("joint: three threads, two that stand are taken back", 2, Some(3), || {
        two_taken_back(true);
    });
}

fn two_taken_back(both_stand: bool) {
    let (clock, time) = Clock::manual();
    let all = limits([TWO, SLOW, SLOW], &clock);
    let mut refused = Vec::new();
    let mut openers = Vec::new();
    for at in [1, 2] {
        let all = Arc::clone(&all);
        let ((here, stands), (opener, go)) = (gate(), gate());
        if both_stand {
            refused.push(thread::spawn(move || is_refused_late(&all, at, meet(here, go))));
            stands.wait();
            openers.push(opener);
        } else {
            (here.open(), opener.open());
            refused.push(thread::spawn(move || is_refused_late(&all, at, Box::new(|| {}))));
        }
    }
    openers.into_iter().for_each(Opener::open);
    time.advance(Duration::from_secs(1));
    let charge = |tokens| kept(&time, tokens, || all[0].check_n(tokens).is_allowed());
    let first = charge(2);
    refused.into_iter().for_each(|thread| thread.join().unwrap());
    assert_within(2, &[first, charge(2), charge(1)]);
}

/// A charge that stands is taken back across a change of quota.
#[test]
fn what_is_taken_back_across_a_change_is_not_given_back_twice() {
    for change in changes() {
        explore_deep("joint: take back across a change", 2, Some(3), move || {
            taken_back_across(change);
        });
    }
}

fn taken_back_across(change: Change) {
    let (clock, time) = Clock::manual();
    let both = limits([THREE, SLOW], &clock);
    let ((here, stands), (opener, go)) = (gate(), gate());
    let refused = {
        let both = Arc::clone(&both);
        thread::spawn(move || {
            is_outrun(used_up(&both, 1), meet(here, go));
            let mut asks = [both[0].ask(change.charged), both[1].ask(1)];
            assert!(!check_all(&mut asks).is_allowed());
        })
    };
    let charge = |tokens| kept(&time, tokens, || both[0].check_n(tokens).is_allowed());
    stands.wait();
    opener.open();
    time.advance(Duration::from_secs(1));
    let before = charge(2);
    both[0].set_quota(change.quota).unwrap();
    let after = charge(3);
    time.advance(Duration::from_secs(change.seconds));
    let late = charge(3);
    refused.join().unwrap();
    change.assert_within(3, &[before, after, late, charge(3), charge(2), charge(1)]);
}

/// C5. A charge below a line of callers who wait is not taken back: two of them would get one turn.
#[test]
fn nothing_is_taken_back_below_a_line() {
    explore("joint: take back against a line", Some(3), || {
        let slow = charged_last(SLOW);
        let limiter = two_cells(TWO, Overflow::Refuse);
        assert!(takes(&limiter, 1, NOW - SECOND));
        let (line, ()) = race(
            &limiter,
            |l| l.check_in_debt_at(&1, 3, 3, NOW).expect("a bucket").reset_after(),
            move |l| is_refused_late_of(l, &slow),
        );
        // The last turn is where the line has put it.
        assert_eq!(Some(debt(&limiter, 1, NOW)), line);
    });
}

/// Asks for a token of key 1 and of a limit that is used up after it was looked at.
fn is_refused_late_of(limiter: &KeyedLimiter<u64>, slow: &Arc<Limiter>) {
    let outrunner = Arc::clone(slow);
    is_outrun(move || assert!(outrunner.check_at(1, NOW).is_allowed()), Box::new(|| {}));
    assert!(!check_all_at(&mut [limiter.ask(&1, 1), slow.ask(1)], NOW).is_allowed());
}

/// A charge is taken back from a key that is just evicted: the key that gets its cell keeps its debt.
#[test]
fn nothing_is_taken_back_from_a_key_that_came_after() {
    explore_deep("joint: take back against an eviction", 1, Some(3), || {
        let slow = charged_last(SLOW);
        let limiter = two_cells(THREE, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW) && limiter.check_at(&2, 3, NOW).is_allowed());
        let ((), new) = race(&limiter, |l| is_refused_late_of(l, &slow), |l| takes(l, 3, NOW));
        assert!(new);
        // The evicted key may have come back, and have evicted the new one.
        if limiter.stats().evicted == 1 {
            assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1));
        }
    });
}

/// A key is evicted after it was looked at: it is charged anew, and so is the other limit.
#[test]
fn a_key_that_is_evicted_after_the_look_is_charged_anew() {
    explore_deep("joint: eviction after the look", 1, Some(3), || {
        let other = charged_last(ONE);
        let limiter = two_cells(THREE, Overflow::EvictNearest);
        assert!(takes(&limiter, 1, NOW) && limiter.check_at(&2, 3, NOW).is_allowed());
        let joint = |l: &KeyedLimiter<u64>| check_all_at(&mut [l.ask(&1, 1), other.ask(1)], NOW);
        let (joint, new) = race(&limiter, |l| joint(l).is_allowed(), |l| takes(l, 3, NOW));
        assert!(new && joint);
        assert_eq!(owes(&other, NOW), 1);
        match limiter.stats().evicted {
            // It was charged, and evicted then.
            1 => assert_eq!(debt(&limiter, 3, NOW), Duration::from_secs(1)),
            // It came back, and owes what it was charged since.
            _ => assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(1)),
        }
    });
}

/// A reset forgives all that was charged before it, and what is taken back later is none of what was
/// charged after it.
#[test]
fn nothing_is_taken_back_beyond_a_reset() {
    explore("joint: take back against a reset", Some(3), || {
        let (clock, time) = Clock::manual();
        let both = limits([TWO, SLOW], &clock);
        let refused = {
            let both = Arc::clone(&both);
            thread::spawn(move || is_refused_late(&both, 1, Box::new(|| {})))
        };
        both[0].reset();
        let charge = |tokens| kept(&time, tokens, || both[0].check_n(tokens).is_allowed());
        let first = charge(2);
        refused.join().unwrap();
        assert_within(2, &[first, charge(2), charge(1)]);
    });
}
