//! The cases: quotas and calls, of kinds in which limiters have been wrong.

use std::time::Duration;

use tollgate::Quota;

use super::Case;

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
const YEAR: u64 = 8_766 * HOUR;

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut all = everyday();
    all.extend(costs());
    all.extend(rates());
    all.extend(extremes());
    all
}

fn case(name: &'static str, quota: Quota, calls: impl IntoIterator<Item = (u64, u64)>) -> Case {
    Case { name, quota, calls: calls.into_iter().collect() }
}

/// So many calls at one instant.
fn at(now: u64, calls: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..calls).map(move |_| (now, 1))
}

/// A call in each step of time, from 0 on.
fn every(step: u64, until: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..until).step_by(step as usize).map(|now| (now, 1))
}

fn everyday() -> Vec<Case> {
    vec![
        case("five times the burst at once", Quota::per_second(20), at(0, 100)),
        case(
            "a call at each token",
            Quota::per_second(10).burst(1),
            every(SECOND / 10, 100 * SECOND),
        ),
        case(
            "a nanosecond early, and in time",
            Quota::per_second(1),
            [(0, 1), (SECOND - 1, 1), (SECOND, 1)],
        ),
        case(
            "a burst on each side of a second's edge",
            Quota::per_second(100),
            at(SECOND - 1, 100).chain(at(SECOND, 100)),
        ),
        case("five calls at once, burst of one", Quota::per_minute(1), at(0, 5)),
        case(
            "drained, and asked at a quarter of the period",
            Quota::per_minute(60).burst(10),
            at(0, 20).chain(at(15 * SECOND, 20)),
        ),
        case("refused calls are free", Quota::per_second(2), every(SECOND / 4, 30 * SECOND)),
        case("part used, half an hour idle", Quota::per_second(1).burst(5), {
            at(0, 3).chain(at(HOUR / 2, 7))
        }),
        case("a token an hour, for ten years", Quota::per_hour(1), every(HOUR, 10 * YEAR)),
        case(
            "polled much more often than a token comes",
            Quota::per_minute(1),
            every(178 * MICRO, 61 * SECOND),
        ),
    ]
}

fn costs() -> Vec<Case> {
    let ten = Quota::per_second(10);
    vec![
        case(
            "costs of 7, 4, 3, and 4 more later",
            ten,
            [(0, 7), (0, 4), (0, 3), (SECOND * 4 / 10, 4)],
        ),
        case(
            "a cost above the burst, also after a year",
            Quota::per_second(1).burst(5),
            [(0, 6), (HOUR, 6), (YEAR, 6), (YEAR, 5)],
        ),
        case(
            "a cost that wraps 64 bits",
            Quota::new(1, Duration::from_nanos(1 << 33)),
            [(0, (1 << 31) + 1)],
        ),
        case(
            "a cost of 32 bits on a small burst",
            Quota::per_second(100),
            [(0, u32::MAX.into()), (0, 100), (SECOND, u32::MAX.into())],
        ),
        case(
            "the whole burst, a month idle, the whole again",
            Quota::per_second(1_000_000),
            [(0, 1_000_000), (0, 1), (30 * 24 * HOUR, 1_000_000), (30 * 24 * HOUR, 1)],
        ),
    ]
}

fn rates() -> Vec<Case> {
    vec![
        case(
            "8000 a second, met to the microsecond",
            Quota::per_second(8_000).burst(2),
            at(0, 3).chain([(124_999, 1), (125_000, 1), (250_000, 1), (250_000, 1)]),
        ),
        case(
            "700 a minute, asked each millisecond",
            Quota::per_minute(700).burst(2),
            every(MILLI, 60 * SECOND),
        ),
        case(
            "an interval of 33.3 ns",
            Quota::per_second(30_000_000).burst(2),
            every(3, 300 * MICRO),
        ),
        case(
            "an interval of 1.7 ns",
            Quota::per_second(600_000_000).burst(2),
            every(1, 100 * MICRO),
        ),
        case(
            "twelve and a half tokens a nanosecond",
            Quota::per_second(12_500_000_000).burst(25),
            (0..1_000).map(|now| (now, 12)),
        ),
    ]
}

fn extremes() -> Vec<Case> {
    let (day, most) = (24 * HOUR, u64::from(u32::MAX));
    vec![
        case("a burst of 584 years", Quota::per_day(1).burst(213_505), at(0, 2)),
        case(
            "a burst of 32 bits",
            Quota::per_second(most),
            [(0, most), (0, 1), (10 * YEAR, most), (10 * YEAR, 1)],
        ),
        case(
            "seven in 26 hours, over a jump of a day",
            Quota::new(7, Duration::from_secs(26 * 3_600)),
            at(0, 8).chain(at(day, 8)).chain(at(3 * day, 8)),
        ),
    ]
}
