//! The limiters that can be given a time, each behind one question: admitted at this time?

use std::cell::Cell as Shared;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use governor::clock::FakeRelativeClock;
use tollgate::{Clock, Limiter, Quota};

use crate::contenders::{Cell, Limit};

/// Asks for a call at a time, which never goes back, and at a cost.
type Ask = Box<dyn FnMut(u64, u64) -> bool>;

/// Makes a limiter, or says why it cannot have this quota.
type Make = fn(Quota) -> Result<Ask, String>;

/// Who is asked, ours first.
pub const PEERS: [(&str, Make); 5] = [
    ("tollgate", tollgate),
    ("governor", governor),
    ("map", by_hand),
    ("ratelimit", ratelimit),
    ("throttlecrab", throttlecrab),
];

fn tollgate(quota: Quota) -> Result<Ask, String> {
    let builder = Limiter::builder(quota).clock(Clock::manual().0);
    let limiter = builder.build().map_err(|error| error.to_string())?;
    Ok(Box::new(move |now, cost| limiter.check_at(cost, now).is_allowed()))
}

/// The interval in whole nanoseconds, which is what most limiters count in.
fn interval(quota: Quota) -> Result<u64, String> {
    let nanos = quota.period().as_nanos() as u64 / quota.limit();
    if nanos == 0 { Err("no such rate".to_owned()) } else { Ok(nanos) }
}

fn governor(quota: Quota) -> Result<Ask, String> {
    let interval = Duration::from_nanos(interval(quota)?);
    let burst = u32::try_from(quota.burst_size()).ok().and_then(NonZeroU32::new);
    let burst = burst.ok_or("no such burst")?;
    let own = governor::Quota::with_period(interval).ok_or("no such rate")?.allow_burst(burst);
    let clock = FakeRelativeClock::default();
    let limiter = governor::RateLimiter::direct_with_clock(own, clock.clone());
    let mut last = 0;
    Ok(Box::new(move |now, cost| {
        clock.advance(Duration::from_nanos(now - last));
        last = now;
        let cost = u32::try_from(cost).ok().and_then(NonZeroU32::new);
        cost.is_some_and(|cost| matches!(limiter.check_n(cost), Ok(Ok(()))))
    }))
}

/// The word that the maps hold.
fn by_hand(quota: Quota) -> Result<Ask, String> {
    let interval = interval(quota)?;
    let tolerance = interval.checked_mul(quota.burst_size()).ok_or("no such burst")?;
    let (cell, limit) = (Cell::default(), Limit { interval, tolerance });
    Ok(Box::new(move |now, cost| cell.admits(now, cost, &limit)))
}

/// A clock that shows what it is told.
struct Told(Rc<Shared<u64>>);

impl ratelimit::Clock for Told {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.0.get())
    }
}

fn ratelimit(quota: Quota) -> Result<Ask, String> {
    let time = Rc::new(Shared::new(0));
    let builder = ratelimit::Builder::with_clock(quota.limit(), Told(time.clone()))
        .period(quota.period())
        .max_tokens(quota.burst_size())
        .initial_available(quota.burst_size());
    let limiter = builder.build().map_err(|error| error.to_string())?;
    Ok(Box::new(move |now, cost| {
        time.set(now);
        limiter.try_wait_n(cost).is_ok()
    }))
}

fn throttlecrab(quota: Quota) -> Result<Ask, String> {
    if quota.period().subsec_nanos() > 0 {
        return Err("whole seconds only".to_owned());
    }
    let (burst, limit) = (quota.burst_size() as i64, quota.limit() as i64);
    let period = quota.period().as_secs() as i64;
    let mut limiter = throttlecrab::RateLimiter::new(throttlecrab::AdaptiveStore::new());
    let start = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    Ok(Box::new(move |now, cost| {
        let now = start + Duration::from_nanos(now);
        let answer = limiter.rate_limit("key", burst, limit, period, cost as i64, now);
        answer.is_ok_and(|(allowed, _)| allowed)
    }))
}
