//! A quota changes while threads decide: no quota is torn, nothing is minted, and what is owed is
//! carried over whole.

use std::time::Duration;

use tollgate::{Algorithm, Quota};

use crate::{
    Keyed, NOW, SECOND, debt, fill, one_bucket, one_state, owes, race, race_of_three, race_until,
    rounds, takes,
};

/// One token per so many seconds.
fn slow(seconds: u64, burst: u64) -> Quota {
    Quota::new(1, Duration::from_secs(seconds)).burst(burst)
}

/// Quotas that need other units each time, or the same; a burst goes with each rate.
fn series(same_units: bool) -> [(Quota, (u64, Duration)); 3] {
    let quota = |index: u64| {
        let burst = index + 2;
        if same_units {
            let rate = 1 << index;
            let quota = Quota::per_second(rate).burst(burst);
            (quota, (burst, Duration::from_nanos(SECOND / rate)))
        } else {
            let seconds = [1, 3, 7][index as usize];
            (slow(seconds, burst), (burst, Duration::from_secs(seconds)))
        }
    };
    [0, 1, 2].map(quota)
}

/// Whoever looks while quotas come and go sees one of them, whole: its limit and its rate, by which
/// the one token is paid off that is owed.
#[test]
fn no_quota_is_torn() {
    for same_units in [true, false] {
        for _ in rounds(2) {
            let series = series(same_units);
            let limiter = one_state(Algorithm::TokenBucket, series[0].0);
            assert!(limiter.check_at(1, NOW).is_allowed());
            let change = || {
                for index in [1, 2, 0, 1] {
                    limiter.set_quota_at(series[index].0, NOW).unwrap();
                }
            };
            let look = || {
                let seen = limiter.peek_at(1, NOW);
                let seen = (seen.limit(), seen.reset_after().unwrap());
                assert!(series.iter().any(|(_, quota)| *quota == seen), "{seen:?}");
                let seen = limiter.quota();
                assert!(series.iter().any(|(quota, _)| *quota == seen), "{seen:?}");
            };
            race_until(look, change);
            assert_eq!(owes(&limiter, NOW), series[1].1.1);
        }
    }
}

/// The same for a key of a table, which two threads ask for, and spend from as well.
#[test]
fn changes_of_the_units_mint_nothing() {
    for _ in rounds(3) {
        let quotas = [1, 3, 7].map(|seconds| slow(seconds, 3));
        let limiter = one_bucket(quotas[0]);
        assert!(takes(&limiter, 1, NOW));
        let change =
            || [1, 2, 0, 1].map(|index| limiter.set_quota_at(quotas[index], NOW).unwrap()).len();
        let spend = || {
            [1, 2, 1, 2].map(|key| {
                let decision = limiter.check_at(&key, 1, NOW);
                assert_eq!(decision.limit(), 3);
                u64::from(decision.is_allowed())
            })
        };
        let (_, one, two) = race_of_three(change, spend, spend);
        // Each key was asked for four tokens: the first had two left, the other three.
        let admitted = |key: usize| [key, key + 2].iter().map(|&call| one[call] + two[call]).sum();
        let admitted: [u64; 2] = [admitted(0), admitted(1)];
        assert_eq!(admitted, [2, 3]);
        assert_eq!([1, 2].map(|key| debt(&limiter, key, NOW)), [Duration::from_secs(9); 2]);
    }
}

/// Other units come into force while a call is charged, in its cell, in a free one, or in that of an
/// idle key: it is owed in the new units when the change has returned, however far it had come.
#[test]
fn other_units_keep_a_call_that_is_under_way() {
    let first = slow(1, 2);
    let is_owed = |limiter: &Keyed, key: u64, owed: u64| {
        let change = || limiter.set_quota_at(slow(3, 2), NOW).unwrap();
        assert!(race(|| takes(limiter, key, NOW), change).0);
        // No word is left in the units before, or this change would take it for one of its own. To
        // look at the key before it would bring it into the new units.
        limiter.set_quota_at(slow(7, 2), NOW).unwrap();
        assert_eq!(debt(limiter, key, NOW), Duration::from_secs(owed));
    };
    for _ in rounds(2) {
        let limiter = one_bucket(first);
        assert!(takes(&limiter, 1, NOW));
        is_owed(&limiter, 1, 14);
        let limiter = one_bucket(first);
        is_owed(&limiter, 1, 7);
    }
    for _ in rounds(1) {
        let limiter = one_bucket(first);
        fill(&limiter, 100, 1, NOW - SECOND);
        is_owed(&limiter, 1, 7);
        assert_eq!(limiter.stats().refused_full, 0);
    }
}

/// A call is stopped, and goes on after two changes, when the parity of the epoch is what it was
/// and the key stands at the same time as before, in other units: seven tokens of one second, of
/// which six are paid, are one token of seven. What the call takes is a token of the new units.
#[test]
fn a_call_that_sleeps_through_two_changes_does_not_charge_in_old_units() {
    for _ in rounds(3) {
        let later = 6 * SECOND;
        let state = one_state(Algorithm::TokenBucket, slow(1, 10));
        assert!(state.check_at(7, 0).is_allowed());
        let changes =
            || [3, 7].map(|seconds| state.set_quota_at(slow(seconds, 10), later).unwrap());
        assert!(race(|| state.check_at(1, 0).is_allowed(), changes).0);
        assert_eq!(owes(&state, later), Duration::from_secs(14));

        let limiter = one_bucket(slow(1, 10));
        assert!(limiter.check_at(&1, 7, 0).is_allowed());
        let changes =
            || [3, 7].map(|seconds| limiter.set_quota_at(slow(seconds, 10), later).unwrap());
        assert!(race(|| takes(&limiter, 1, 0), changes).0);
        assert_eq!(debt(&limiter, 1, later), Duration::from_secs(14));
    }
}

/// The cell of an idle key is being taken for another key while the changer walks the table: what
/// the other key spends at once is not lost when the taker gives the cell up.
#[test]
fn a_cell_that_is_given_up_during_a_change_loses_no_charge() {
    for _ in rounds(1) {
        let limiter = one_bucket(slow(1, 2));
        fill(&limiter, 100, 1, NOW - SECOND);
        // Under the new quota two tokens at once are too many.
        let change = || {
            limiter.set_quota_at(slow(60, 1), NOW).unwrap();
            takes(&limiter, 1, NOW)
        };
        let (two, one) = race(|| limiter.check_at(&1, 2, NOW).is_allowed(), change);
        assert!(one != two, "one token: {one}, two tokens: {two}");
        assert!(!takes(&limiter, 1, NOW));
    }
}
