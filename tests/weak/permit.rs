//! Permits: what is given back is given back once, and to nobody twice.

use std::sync::Arc;

use tollgate::{Clock, Limiter, Permits, Quota};

use crate::{NOW, SECOND, owes, race, race_of_three, rounds};

/// A token a second, so that what is owed is known in tokens; and permits.
fn with_permits(burst: u64) -> Limiter {
    let builder = Limiter::builder(Quota::per_second(1).burst(burst)).permits(Permits::new());
    builder.clock(Clock::manual().0).build().unwrap()
}

/// Seconds until nothing is owed: tokens.
fn owed(limiter: &Limiter, now: u64) -> u64 {
    owes(limiter, now).as_secs()
}

/// Two settle at once: what they have kept is owed, and no more than what the one that lies below the other
/// loses by what that one gives back first.
#[test]
fn two_that_settle_at_once_both_give_back() {
    for _ in rounds(3) {
        let limiter = with_permits(9);
        let [one, other] = [4, 5].map(|estimate| limiter.reserve_at(estimate, NOW).unwrap());
        let unpaid = race(|| one.commit_at(1, NOW), || other.commit_at(3, NOW));
        assert_eq!(unpaid, (0, 0));
        assert!((4..=5).contains(&owed(&limiter, NOW)), "{}", owed(&limiter, NOW));
    }
}

/// One gives back while another takes what it may, and a third asks for more than there is.
#[test]
fn what_comes_back_is_there_for_one() {
    for _ in rounds(3) {
        let limiter = with_permits(2);
        let permit = limiter.reserve_at(2, NOW).unwrap();
        let take = || limiter.check_at(2, NOW).is_allowed();
        let (unpaid, here, there) = race_of_three(|| permit.commit_at(0, NOW), take, take);
        assert_eq!(unpaid, 0);
        assert!(!(here && there), "two tokens came back, and four were taken");
        assert_eq!(owed(&limiter, NOW), if here || there { 2 } else { 0 });
    }
}

/// Beside one that is cancelled another is reserved, and cancelled when all of it has been earned: at that
/// moment no more is taken than the burst.
#[test]
fn two_that_are_cancelled_store_nothing() {
    for _ in rounds(3) {
        let limiter = with_permits(3);
        let later = NOW + SECOND;
        let spend = || (0..9).filter(|_| limiter.check_at(1, later).is_allowed()).count();
        let other = limiter.reserve_at(1, NOW).unwrap();
        let beside = || {
            let permit = limiter.reserve_at(1, NOW).unwrap();
            let first = spend();
            permit.commit_at(0, later);
            first + spend()
        };
        let (spent, _) = race(beside, || other.commit_at(0, NOW));
        let spent = spent + spend();
        assert!(spent <= 3, "{spent} of a burst of 3");
    }
}

/// A permit that two threads hold is settled by one of them.
#[test]
fn a_permit_is_settled_once() {
    for _ in rounds(3) {
        let limiter = with_permits(4);
        let permit = Arc::new(limiter.reserve_at(4, NOW).unwrap().detach());
        let settle = |actual| limiter.commit_at(&permit, actual, NOW).is_ok();
        let (here, there) = race(|| settle(1), || settle(2));
        assert!(here != there, "here: {here}, there: {there}");
        assert_eq!(owed(&limiter, NOW), if here { 1 } else { 2 });
    }
}

/// A ban is as long as it is, whatever is given back meanwhile.
#[test]
fn nothing_that_comes_back_shortens_a_ban() {
    for _ in rounds(3) {
        let limiter = with_permits(2);
        let permit = limiter.reserve_at(2, NOW).unwrap();
        let end = NOW + 10 * SECOND;
        race(|| permit.commit_at(0, NOW), || limiter.ban_at(end, NOW).unwrap());
        assert!(!limiter.check_at(1, end).is_allowed());
        assert!(limiter.check_at(1, end + SECOND).is_allowed());
    }
}

/// Nothing comes back into the next life of a key that is reset meanwhile.
#[test]
fn nothing_comes_back_after_a_reset() {
    for _ in rounds(3) {
        let limiter = with_permits(2);
        let permit = limiter.reserve_at(2, NOW).unwrap();
        let again = || {
            limiter.reset_at(NOW);
            limiter.check_at(2, NOW).is_allowed()
        };
        let (_, is_allowed) = race(|| permit.commit_at(0, NOW), again);
        assert!(is_allowed, "a key that was reset is as new");
        assert!(!limiter.check_at(1, NOW).is_allowed(), "the permit was of the life before");
    }
}
