//! All schedules of small instances, on the production code: no interval has more calls than
//! `docs/leases.md` says, whatever handles do and when.
//!
//! A token is a unit is a nanosecond. What happens next does not depend on the time itself but on the
//! ages of leases, so the states are finite, and all of them are seen.

use std::collections::HashSet;
use std::time::Duration;

use super::handle::Lease;
use super::{LeaseHandle, Leases};
use crate::cell;
use crate::clock::Clock;
use crate::limiter::Limiter;
use crate::quota::Quota;

/// The moment at which every state is set up.
const NOW: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
struct Instance {
    burst: u64,
    handles: u64,
    term: u64,
    largest: u64,
    clock_every: u64,
}

/// A lease, with its age in place of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Held {
    ready: u64,
    rest: u64,
    tokens: u64,
    want: u64,
    age: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// What the shared word owes.
    owed: u64,
    handles: Vec<Held>,
    /// The most that was spent in any interval that ends now, less the interval's length.
    spent: u64,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Check(usize, u64),
    GiveBack(usize),
    Tick,
}

impl Instance {
    /// What an interval may have besides its length, by the guide.
    fn bound(&self) -> u64 {
        let Instance { burst, handles, term, largest, clock_every } = *self;
        burst + (term + handles * (clock_every - 1)).min(handles * (largest - 1))
    }

    /// The most that any interval has besides its length.
    fn explore(&self) -> u64 {
        let limiter = Limiter::builder(Quota::per_second(1_000_000_000).burst(self.burst))
            .clock(Clock::manual().0)
            .build()
            .unwrap();
        let leases = Leases::of(Duration::from_nanos(self.term)).largest(self.largest);
        let leased = limiter.leased(leases.clock_every(self.clock_every)).unwrap();
        let mut handles: Vec<_> = (0..self.handles).map(|_| leased.handle()).collect();
        let fresh = Held { ready: 0, rest: 0, tokens: 0, want: 1, age: self.term };
        let start = State { owed: 0, handles: vec![fresh; handles.len()], spent: 0 };
        let (mut seen, mut open) = (HashSet::from([start.clone()]), vec![start]);
        let mut most = 0;
        while let Some(state) = open.pop() {
            for action in self.actions() {
                let next = self.step(&state, action, &mut handles);
                assert!(next.spent <= self.bound(), "{self:?}: {action:?} on {state:?}");
                most = most.max(next.spent);
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        most
    }

    fn actions(&self) -> Vec<Action> {
        let of_one = |handle| {
            let costs = [Action::Check(handle, 1), Action::Check(handle, 2)];
            costs.into_iter().chain([Action::GiveBack(handle)])
        };
        (0..self.handles as usize).flat_map(of_one).chain([Action::Tick]).collect()
    }

    fn step(&self, state: &State, action: Action, handles: &mut [LeaseHandle<'_>]) -> State {
        let mut next = state.clone();
        let (Action::Check(index, _) | Action::GiveBack(index)) = action else {
            next.owed = state.owed.saturating_sub(1);
            next.spent = state.spent.saturating_sub(1);
            next.handles.iter_mut().for_each(|held| held.age = (held.age + 1).min(self.term));
            return next;
        };
        let handle = &mut handles[index];
        let limiter = &handle.leased.limiter;
        let terms = limiter.policy.load();
        let position = terms.read(NOW).unwrap().position;
        let word = limiter.glance();
        let owing = word.at(position + state.owed, terms.epoch());
        assert!(cell::replace(&limiter.state.0, word, owing));
        let held = state.handles[index];
        handle.lease = Lease::NONE;
        handle.lease.want = held.want;
        (handle.lease.ready, handle.lease.rest) = (held.ready, held.rest);
        let charge = &mut handle.lease.charge;
        (charge.cost, charge.sequence, charge.word) = (held.tokens, terms.sequence, owing);
        charge.position = position - held.age;
        handle.lease.taken_at = NOW - held.age;
        match action {
            Action::Check(_, cost) => {
                next.spent += cost * u64::from(handle.check_at(cost, NOW).is_allowed());
            }
            Action::GiveBack(_) | Action::Tick => handle.give_back_at(NOW),
        }
        let Lease { ready, rest, charge, want, taken_at } = handle.lease;
        let (tokens, age) = (charge.cost, NOW - taken_at);
        next.handles[index] = Held { ready, rest, tokens, want, age };
        next.handles.sort_unstable();
        next.owed = limiter.glance().time().saturating_sub(position);
        next
    }
}

#[test]
#[cfg_attr(miri, ignore = "millions of calls")]
fn no_schedule_of_a_small_instance_spends_above_the_bound() {
    let explore = |burst, handles, term, largest, clock_every| {
        let instance = Instance { burst, handles, term, largest, clock_every };
        (instance.explore(), instance.bound())
    };
    // The clock is read for each call, so that the term counts.
    for (most, bound) in [explore(16, 4, 2, 2, 1), explore(12, 3, 2, 2, 1), explore(12, 2, 3, 3, 1)]
    {
        assert!(most <= bound);
    }
    // It is not: there are schedules that come up to the bound, by the term and by the largest lease.
    for (most, bound) in [explore(12, 3, 2, 2, 2), explore(12, 2, 4, 3, 3), explore(8, 2, 4, 2, 2)]
    {
        assert_eq!(most, bound);
    }
}
