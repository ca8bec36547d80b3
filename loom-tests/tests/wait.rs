//! Lines: those who wait own disjoint turns, whoever leaves, and nothing else gives a turn away twice.
//!
//! A token a second and a burst of one, so that two who go must be a second apart, whether they have
//! waited or were admitted at once. The clock steps while calls are under way.

#![cfg(tollgate_loom)]

use std::mem::forget;
use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::SeqCst;
use tollgate::{
    Algorithm, Clock, KeyedLimiter, Limiter, Overflow, Quota, Turn, WaitError, check_all_at,
};
use tollgate_loom_tests::{
    NOW, SECOND, explore, explore_deep, one_state, one_state_of, race, race_of_three, two_cells,
    two_cells_of,
};

const ONE: Quota = Quota::per_second(1).burst(1);
const SLOW: Quota = Quota::new(1, Duration::from_secs(10)).burst(1);
const MAX: Duration = Duration::from_secs(100);

/// Key 1 of a table, or a limiter of one state.
trait Lines: Send + Sync + 'static {
    fn place(&self, now: u64) -> Result<Turn<'_>, WaitError>;
    fn takes(&self, now: u64) -> bool;
    fn give_back(&self, now: u64);
    fn forgive(&self, now: u64);
    fn change(&self, quota: Quota, now: u64);

    /// Lines up and stays; when the turn is.
    fn stays(&self, now: u64) -> u64 {
        due(self.place(now).unwrap(), now)
    }

    /// Lines up and leaves.
    fn leaves(&self, now: u64, then: u64) {
        self.place(now).unwrap().give_up_at(then);
    }
}

impl Lines for Limiter {
    fn place(&self, now: u64) -> Result<Turn<'_>, WaitError> {
        self.line_up_at(1, MAX, now)
    }
    fn takes(&self, now: u64) -> bool {
        self.check_at(1, now).is_allowed()
    }
    fn give_back(&self, now: u64) {
        self.refund_at(1, now);
    }
    fn forgive(&self, now: u64) {
        self.reset_at(now);
    }
    fn change(&self, quota: Quota, now: u64) {
        self.set_quota_at(quota, now).unwrap();
    }
}

impl Lines for KeyedLimiter<u64> {
    fn place(&self, now: u64) -> Result<Turn<'_>, WaitError> {
        self.line_up_at(&1, 1, MAX, now)
    }
    fn takes(&self, now: u64) -> bool {
        self.check_at(&1, 1, now).is_allowed()
    }
    fn give_back(&self, now: u64) {
        self.refund_at(&1, 1, now);
    }
    fn forgive(&self, now: u64) {
        self.reset_at(&1, now);
    }
    fn change(&self, quota: Quota, now: u64) {
        self.set_quota_at(quota, now).unwrap();
    }
}

/// When the turn of a place is; the place is forgotten, and so kept.
fn due(mut turn: Turn<'_>, now: u64) -> u64 {
    let wait = turn.remaining_at(now).unwrap().unwrap_or_default();
    forget(turn);
    now + wait.as_nanos() as u64
}

/// Whoever goes, goes a second after the one before.
fn assert_apart<const N: usize>(times: [Option<u64>; N]) {
    let mut times: Vec<u64> = times.into_iter().flatten().collect();
    times.sort_unstable();
    let apart = times.windows(2).all(|pair| pair[1] - pair[0] >= SECOND);
    let since: Vec<u64> = times.iter().map(|time| (time - NOW) / (SECOND / 10)).collect();
    assert!(apart, "tenths of a second after the start: {since:?}");
}

/// A limiter whose token is spent, in both forms.
fn on_both(
    name: &'static str,
    bounds: (usize, Option<usize>),
    model: impl Fn(Form) + Copy + Send + Sync + 'static,
) {
    explore_deep(name, bounds.0, bounds.1, move || model(Form::State));
    explore_deep(name, bounds.0, bounds.1, move || model(Form::Table));
}

#[derive(Clone, Copy)]
enum Form {
    State,
    Table,
}

fn leaving(limiter: &Arc<impl Lines>) {
    assert!(limiter.takes(NOW));
    let clock = Arc::new(AtomicU64::new(NOW));
    let stepped = Arc::clone(&clock);
    let ((), (stays, takes)) = race(
        limiter,
        |l| {
            let turn = l.place(clock.load(SeqCst)).unwrap();
            turn.give_up_at(clock.load(SeqCst));
        },
        move |l| {
            let first = l.stays(NOW);
            stepped.store(NOW + SECOND, SeqCst);
            // Somebody stands in line, or has gone just now.
            (first, l.takes(NOW + SECOND).then_some(NOW + SECOND))
        },
    );
    let next = limiter.stays(NOW + SECOND);
    assert_apart([Some(NOW), Some(stays), takes, Some(next)]);
    assert!(next > stays, "the order of the line");
}

/// W1: one leaves, one stays, and a plain call between them, while the clock steps.
#[test]
fn who_leaves_a_line_gives_nobody_elses_turn_away() {
    on_both("wait: leave, stay, check", (3, None), |form| match form {
        Form::State => leaving(&one_state(ONE)),
        Form::Table => leaving(&two_cells(ONE, Overflow::Refuse)),
    });
}

fn two_leaving(limiter: &Arc<impl Lines>) {
    assert!(limiter.takes(NOW));
    let ((), stays, ()) =
        race_of_three(limiter, |l| l.leaves(NOW, NOW), |l| l.stays(NOW), |l| l.leaves(NOW, NOW));
    assert!(!limiter.takes(NOW), "a plain call has overtaken a line");
    let next = limiter.stays(NOW);
    assert_apart([Some(NOW), Some(stays), Some(next)]);
}

/// W2: two leave, and one stays.
#[test]
fn two_who_leave_a_line_give_nobody_elses_turn_away() {
    on_both("wait: two leave, one stays", (3, Some(4)), |form| match form {
        Form::State => two_leaving(&one_state(ONE)),
        Form::Table => two_leaving(&two_cells(ONE, Overflow::Refuse)),
    });
}

/// C5: a call that asks two limits is refused by the second one after it has charged the first, and
/// meanwhile somebody stands in line there.
#[test]
fn a_charge_that_is_taken_back_gives_nobody_elses_turn_away() {
    explore("wait: roll-back", Some(3), || {
        // Side by side, as limits are charged in the order of their addresses.
        let one = || {
            let builder = Limiter::builder(ONE).clock(Clock::manual().0);
            builder.origin(Duration::ZERO).build().unwrap()
        };
        let both = Arc::new([one(), one()]);
        let (all, stays) = race(
            &both,
            |[x, y]: &[Limiter; 2]| check_all_at(&mut [x.ask(1), y.ask(1)], NOW).is_allowed(),
            |[x, y]| {
                let _ = y.check_at(1, NOW);
                x.stays(NOW)
            },
        );
        let next = both[0].stays(NOW);
        assert_apart([all.then_some(NOW), Some(stays), Some(next)]);
    });
}

/// The first places of a key that was not there, whose charges are inserts.
#[test]
fn who_leaves_a_new_keys_line_gives_nobody_elses_turn_away() {
    explore_deep("wait: a new key", 2, Some(3), || {
        let limiter = two_cells(ONE, Overflow::Refuse);
        let (goes, stays) = race(
            &limiter,
            |l| {
                let mut turn = l.place(NOW).unwrap();
                // Whoever is first need not wait.
                let goes = turn.remaining_at(NOW) == Ok(None);
                turn.give_up_at(NOW);
                goes.then_some(NOW)
            },
            |l| l.stays(NOW),
        );
        let next = limiter.stays(NOW);
        assert_apart([goes, Some(stays), Some(next)]);
    });
}

fn refunding(limiter: &Arc<impl Lines>) {
    assert!(limiter.takes(NOW));
    let first = limiter.stays(NOW);
    let ((), stays) = race(limiter, |l| l.give_back(NOW), |l| l.stays(NOW));
    let next = limiter.stays(NOW);
    assert_apart([Some(NOW), Some(first), Some(stays), Some(next)]);
}

/// What is granted back while a line stands passes it by.
#[test]
fn a_refund_gives_nobody_elses_turn_away() {
    on_both("wait: refund", (3, None), |form| match form {
        Form::State => refunding(&one_state(ONE)),
        Form::Table => refunding(&two_cells(ONE, Overflow::Refuse)),
    });
}

fn resetting(limiter: &Arc<impl Lines>) {
    assert!(limiter.takes(NOW));
    let ((), (takes, stays)) = race(
        limiter,
        |l| l.leaves(NOW, NOW),
        |l| {
            l.forgive(NOW);
            (l.takes(NOW).then_some(NOW), l.stays(NOW))
        },
    );
    let next = limiter.stays(NOW);
    // From the reset on; what was charged before it is forgiven.
    assert_apart([takes, Some(stays), Some(next)]);
}

/// A place of before a reset is not given back after it, though the line has come to the same end.
#[test]
fn who_leaves_after_a_reset_gives_nobody_elses_turn_away() {
    on_both("wait: reset", (3, None), |form| match form {
        Form::State => resetting(&one_state(ONE)),
        Form::Table => resetting(&two_cells(ONE, Overflow::Refuse)),
    });
}

fn changing(limiter: &Arc<impl Lines>) {
    assert!(limiter.takes(NOW));
    let (waits, ()) = race(
        limiter,
        |l| {
            let mut turn = l.place(NOW).unwrap();
            let wait = turn.remaining_at(NOW).unwrap().unwrap();
            let again = turn.remaining_at(NOW).unwrap().unwrap();
            forget(turn);
            (wait.as_secs(), again.as_secs())
        },
        |l| l.change(SLOW, NOW),
    );
    // One token is to come back before the turn.
    let known = [(1, 1), (1, 10), (10, 10)];
    assert!(known.contains(&waits), "seconds: {waits:?}");
    assert_eq!(limiter.stays(NOW), NOW + 20 * SECOND);
}

/// A place is carried over to other units as what the key owes is.
#[test]
fn a_place_is_carried_over_to_other_units() {
    on_both("wait: other units", (3, None), |form| match form {
        Form::State => changing(&one_state_of(Algorithm::Gcra, ONE)),
        Form::Table => changing(&two_cells_of(Algorithm::Gcra, ONE, Overflow::Refuse)),
    });
}

fn leaving_a_change(limiter: &Arc<impl Lines>) {
    assert!(limiter.takes(NOW));
    let ((), stays) = race(
        limiter,
        |l| l.leaves(NOW, NOW),
        |l| {
            l.change(SLOW, NOW);
            l.stays(NOW)
        },
    );
    let next = limiter.stays(NOW);
    assert!(stays >= NOW + 10 * SECOND && next >= stays + 10 * SECOND, "{stays}, {next}");
}

/// Who leaves while the units change gives nobody else's turn away, in whatever units.
#[test]
fn who_leaves_during_a_change_gives_nobody_elses_turn_away() {
    on_both("wait: leave during a change", (3, None), |form| match form {
        Form::State => leaving_a_change(&one_state_of(Algorithm::Gcra, ONE)),
        Form::Table => {
            leaving_a_change(&two_cells_of(Algorithm::Gcra, ONE, Overflow::Refuse));
        }
    });
}

/// A new key does not get the cell of one that has a line.
#[test]
fn a_line_is_not_evicted() {
    explore("wait: eviction", Some(3), || {
        let limiter = two_cells(ONE, Overflow::EvictNearest);
        for key in [1, 1, 2, 2] {
            forget(limiter.line_up_at(&key, 1, MAX, NOW).unwrap());
        }
        let stranger = |l: &KeyedLimiter<u64>| l.check_at(&3, 1, NOW).is_full();
        let (stays, is_full) = race(&limiter, |l| l.stays(NOW), stranger);
        assert!(is_full && limiter.stats().evicted == 0);
        assert_eq!(stays, NOW + 2 * SECOND);
    });
}
