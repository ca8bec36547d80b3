//! Debts, penalties and bans: none is lost, and nobody shortens a ban, whoever comes between.
//!
//! A token a second, so that what is owed is known to the second: a ban until a moment leaves a key with as
//! much as it takes until then, and the burst. Two threads, at three preemptions or without a bound.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, KeyedLimiter, Limiter, Overflow, Permits, Quota, check_all_at};
use tollgate_loom_tests::{
    NOW, SECOND, at_steps, debt, explore, explore_deep, one_state, race, takes, two_cells,
};

const ONE: Quota = Quota::per_second(1).burst(1);
const TWO: Quota = Quota::per_second(1).burst(2);
/// Seconds for which keys are banned.
const BAN: u64 = 6;

/// One token per so many seconds.
fn slower(seconds: u64) -> Quota {
    Quota::new(1, Duration::from_secs(seconds)).burst(2)
}

fn ban(limiter: &Limiter, seconds: u64) {
    limiter.ban_at(NOW + seconds * SECOND, NOW).expect("a bucket");
}

fn ban_key(limiter: &KeyedLimiter<u64>, key: u64) {
    limiter.ban_at(&key, NOW + BAN * SECOND, NOW).expect("a bucket with a free cell");
}

fn admits(limiter: &Limiter, tokens: u64) -> bool {
    limiter.check_at(tokens, NOW).is_allowed()
}

/// Seconds until nothing is owed.
fn owes(limiter: &Limiter) -> u64 {
    limiter.peek_at(1, NOW).reset_after().expect("no quota of these models is 0").as_secs()
}

/// Refused up to the end of the ban, when the bucket is empty.
#[track_caller]
fn assert_banned(limiter: &Limiter) {
    assert_eq!(owes(limiter), BAN + 2);
    let end = NOW + BAN * SECOND;
    assert_empty_at(limiter, end);
    assert!(limiter.check_at(1, end + SECOND).is_allowed());
}

#[track_caller]
fn assert_empty_at(limiter: &Limiter, end: u64) {
    assert!(!limiter.check_at(1, end - 1).is_allowed() && !limiter.check_at(1, end).is_allowed());
}

/// A call that asks two limits is refused by the second after it has charged the first, which is banned
/// meanwhile.
#[test]
fn a_ban_is_not_shortened_by_a_charge_that_is_taken_back() {
    explore("debt: ban against take back", Some(3), || {
        // Side by side, as limits are charged in the order of their addresses.
        let limit = || Limiter::builder(TWO).clock(Clock::manual().0).origin(Duration::ZERO);
        let both = Arc::new([limit(), limit()].map(|builder| builder.build().unwrap()));
        let outrunner = Arc::clone(&both);
        let refused = move |[x, y]: &[Limiter; 2]| {
            at_steps([("joint: looked", Box::new(move || assert!(admits(&outrunner[1], 2))))]);
            check_all_at(&mut [x.ask(2), y.ask(2)], NOW).is_allowed()
        };
        let (is_allowed, ()) = race(&both, refused, |[x, _]| ban(x, BAN));
        assert!(!is_allowed);
        assert_banned(&both[0]);
    });
}

#[test]
fn a_ban_is_not_shortened_by_a_permit() {
    explore("debt: ban against a permit", Some(3), || {
        let builder = Limiter::builder(TWO).clock(Clock::manual().0).permits(Permits::new());
        let limiter = Arc::new(builder.build().unwrap());
        let permit = limiter.reserve_at(2, NOW).expect("the burst is there").detach();
        let cancel = move |l: &Limiter| assert_eq!(l.commit_at(&permit, 0, NOW), Ok(0));
        race(&limiter, cancel, |l| ban(l, BAN));
        assert_banned(&limiter);
    });
}

#[test]
fn a_ban_is_not_shortened_by_a_refund() {
    explore("debt: ban against a refund", Some(3), || {
        let limiter = one_state(TWO);
        assert!(admits(&limiter, 2));
        race(&limiter, |l| l.refund_at(2, NOW), |l| ban(l, BAN));
        assert_banned(&limiter);
    });
    explore("debt: ban of a key against a refund", Some(3), || {
        let limiter = two_cells(TWO, Overflow::Refuse);
        assert!(limiter.check_at(&1, 2, NOW).is_allowed());
        race(&limiter, |l| l.refund_at(&1, 2, NOW), |l| ban_key(l, 1));
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(BAN + 2));
    });
}

#[test]
fn of_two_bans_the_longer_holds() {
    explore("debt: two bans", None, || {
        let limiter = one_state(TWO);
        race(&limiter, |l| ban(l, BAN), |l| ban(l, BAN - 1));
        let end = NOW + BAN * SECOND;
        assert_empty_at(&limiter, end);
        // A ban that ends before what is owed adds the least that a word can tell, which here is a
        // nanosecond, if it comes last.
        assert!(limiter.check_at(1, end + SECOND + 1).is_allowed());
    });
}

#[test]
fn a_check_beside_a_ban_is_admitted_before_or_refused() {
    explore("debt: ban against a check", None, || {
        let limiter = one_state(TWO);
        let banned = |l: &Limiter| {
            ban(l, BAN);
            admits(l, 1)
        };
        let (before, after) = race(&limiter, |l| admits(l, 1), banned);
        assert!(!after, "admitted in a ban");
        assert_banned(&limiter);
        // Those of the ban's end are two refusals and an admission.
        let stats = limiter.stats();
        assert_eq!((stats.admitted, stats.refused), (1 + u64::from(before), 4 - u64::from(before)));
    });
}

#[test]
fn a_debt_with_room_for_one_admits_one() {
    explore("debt: two for one debt", None, || {
        let limiter = one_state(ONE);
        let check = |l: &Limiter| l.check_in_debt_at(2, 1, NOW).expect("a bucket").is_allowed();
        let (here, there) = race(&limiter, check, check);
        assert!(here != there, "here: {here}, there: {there}");
        assert_eq!(owes(&limiter), 2);
    });
}

#[test]
fn a_penalty_beside_a_check_is_charged() {
    explore("debt: penalty against a check", None, || {
        let limiter = one_state(TWO);
        let penalize = |l: &Limiter| l.penalize_at(3, NOW).expect("a bucket");
        let (admitted, ()) = race(&limiter, |l| admits(l, 1), penalize);
        assert_eq!(owes(&limiter), 3 + u64::from(admitted));
    });
}

/// The key is not in the table, and another thread brings it there, too.
#[test]
fn a_new_key_is_charged_a_penalty_beside_its_first_check() {
    explore_deep("debt: penalty of a new key", 2, Some(3), || {
        let limiter = two_cells(TWO, Overflow::Refuse);
        let penalize = |l: &KeyedLimiter<u64>| l.penalize_at(&1, 3, NOW).expect("a free cell");
        let (admitted, ()) = race(&limiter, |l| takes(l, 1, NOW), penalize);
        assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(3 + u64::from(admitted)));
    });
}

/// Another thread brings the same key, or another one, whose commit has the ban judged again.
#[test]
fn a_new_key_is_banned_whoever_comes_beside_it() {
    for key in [1, 2] {
        let name = format!("debt: ban of a new key against key {key}");
        explore_deep(&name, 2, Some(3), move || {
            let limiter = two_cells(TWO, Overflow::Refuse);
            let (admitted, ()) = race(&limiter, move |l| takes(l, key, NOW), |l| ban_key(l, 1));
            assert!(admitted || key == 1);
            assert_eq!(debt(&limiter, 1, NOW), Duration::from_secs(BAN + 2));
        });
    }
}

/// A penalty is so many tokens by either quota. A ban is laid by the one that is in force then: by the
/// first it is stretched with the rest that is owed, by the second it is as long as it says.
#[test]
fn what_is_owed_beyond_the_burst_is_carried_over_to_other_units() {
    let change = |l: &Limiter| l.set_quota_at(slower(3), NOW).unwrap();
    let change_again = |l: &Limiter| l.set_quota_at(slower(7), NOW).unwrap();
    explore("debt: penalty against other units", Some(3), move || {
        let limiter = one_state(TWO);
        race(&limiter, |l| l.penalize_at(5, NOW).expect("a bucket"), change);
        assert_eq!(owes(&limiter), 3 * 5);
        change_again(&limiter);
        assert_eq!(owes(&limiter), 7 * 5);
    });
    explore("debt: ban against other units", Some(3), move || {
        let limiter = one_state(TWO);
        race(&limiter, |l| ban(l, BAN), change);
        let owed = owes(&limiter);
        assert!([3 * (BAN + 2), BAN + 3 * 2].contains(&owed), "{owed} s");
    });
    explore("debt: ban of a key against other units", Some(3), || {
        let limiter = two_cells(TWO, Overflow::Refuse);
        assert!(takes(&limiter, 1, NOW));
        let change = |l: &KeyedLimiter<u64>| l.set_quota_at(slower(3), NOW).unwrap();
        race(&limiter, |l| ban_key(l, 1), change);
        let owed = debt(&limiter, 1, NOW).as_secs();
        assert!([3 * (BAN + 2), BAN + 3 * 2].contains(&owed), "{owed} s");
    });
}
