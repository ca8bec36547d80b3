//! The body of a refusal, and when to come back.

use core::time::Duration;
use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderValue;
use serde_json::json;

use crate::tower::answer::{Told, seconds};

/// How `Retry-After` tells when to come back.
///
/// ```
/// use tollgate::tower::RetryAfter;
///
/// assert_eq!(RetryAfter::default(), RetryAfter::Delta);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAfter {
    /// In whole seconds from now, which needs no clocks that agree.
    #[default]
    Delta,
    /// As a date, rounded up to whole seconds.
    Date,
}

/// The value of `Retry-After` for a wait: rounded up, and at least a second.
pub(in crate::tower) fn retry_after(
    form: RetryAfter,
    wait: Duration,
    now: impl FnOnce() -> SystemTime,
) -> Option<HeaderValue> {
    match form {
        RetryAfter::Delta => Some(match seconds(wait) {
            // As most are: nothing is allocated for them.
            0 | 1 => HeaderValue::from_static("1"),
            more => HeaderValue::from(more),
        }),
        RetryAfter::Date => {
            let since = now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let at = seconds(since.saturating_add(wait.max(Duration::from_nanos(1))));
            // Dates have four digits for the year.
            let at = Duration::from_secs(at.min(253_402_300_799));
            let date = SystemTime::UNIX_EPOCH.checked_add(at)?;
            HeaderValue::try_from(httpdate::fmt_http_date(date)).ok()
        }
    }
}

/// A wait that is longer by a share of `per_cent` at the most, `random` of all 64 bits deciding.
pub(in crate::tower) fn lengthened(wait: Duration, per_cent: u8, random: u64) -> Duration {
    let most = wait.as_nanos() * u128::from(per_cent) / 100;
    // A share of 584 years and more has no room: then the wait is not made longer.
    let more = most.checked_mul(random.into()).map_or(0, |more| more >> 64);
    wait.saturating_add(Duration::from_nanos(u64::try_from(more).unwrap_or(0)))
}

/// Problem details of RFC 9457 for a quota that is used up, as draft 10 of the headers has them.
pub(in crate::tower) fn problem<'a>(violated: impl Iterator<Item = &'a str>) -> Bytes {
    let violated: Vec<&str> = violated.collect();
    let problem = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "violated-policies": violated,
    });
    Bytes::from(problem.to_string())
}

/// The same for people.
pub(in crate::tower) fn text(wait: Option<Duration>) -> Bytes {
    match wait {
        Some(wait) => {
            let seconds = seconds(wait).max(1);
            let unit = if seconds == 1 { "second" } else { "seconds" };
            format!("Too many requests. Try again in {seconds} {unit}.\n").into()
        }
        None => Bytes::from_static(b"Too many requests.\n"),
    }
}

/// The names of the rules that refuse.
pub(in crate::tower) fn violated(told: &[Told]) -> impl Iterator<Item = &str> {
    told.iter().filter(|told| told.is_violated).map(|told| told.name.as_str())
}
