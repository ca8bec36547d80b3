//! The vectors of headers and of gRPC that need no service: each by its number.

use core::time::Duration;
use std::time::SystemTime;

use http::{HeaderMap, Request, Response, StatusCode};

use super::refusal::{lengthened, problem, retry_after, text, violated};
use super::{
    HeaderStyle, Numbers, PolicyName, RetryAfter, Told, grpc, longest_wait, write_headers,
};
use crate::algorithm::Algorithm;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::quota::Quota;
use crate::tower::head::Head;

use HeaderStyle::{Draft06, Draft07, Draft10, XDelta, XEpoch};

const NOW: Duration = Duration::from_secs(1_700_000_000);

/// A name, a quota, and what a limiter of it has said.
fn told(name: &str, quota: Quota, decision: Decision) -> Told {
    let numbers = Some(Numbers::of(&quota, &decision));
    let (is_violated, wait) = (!decision.is_allowed(), decision.retry_after());
    Told { name: PolicyName::new(name).unwrap(), wait, is_violated, numbers }
}

fn limiter(quota: Quota, algorithm: Algorithm) -> Limiter {
    let builder = Limiter::builder(quota).algorithm(algorithm).clock(Clock::manual().0);
    builder.origin(Duration::ZERO).build().unwrap()
}

/// The last of these costs, all at once.
fn last(quota: Quota, costs: &[u64]) -> Decision {
    let limiter = limiter(quota, Algorithm::Gcra);
    costs.iter().map(|&cost| limiter.check_at(cost, 0)).last().unwrap()
}

/// The headers of a style, each as `name: value`, in an answer of 200.
fn headers(style: HeaderStyle, told: &[Told]) -> Vec<String> {
    let mut headers = HeaderMap::new();
    let answer = (StatusCode::OK, &mut headers);
    write_headers(style, told, || SystemTime::UNIX_EPOCH + NOW, answer);
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}", value.to_str().unwrap())
    };
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    lines
}

fn assert_headers(vector: &str, style: HeaderStyle, told: &[Told], expected: &[&str]) {
    assert_eq!(headers(style, told), expected, "{vector}");
}

#[test]
fn h1_to_h7_h9_each_style_of_a_first_request() {
    let minute = Quota::per_minute(100);
    let first = [told("default", minute, last(minute, &[1]))];
    let d10 = ["ratelimit-policy: \"default\";q=100;w=60", "ratelimit: \"default\";r=99;t=1"];
    assert_headers("H1", Draft10, &first, &d10);
    let d7 = ["ratelimit-policy: 100;w=60", "ratelimit: limit=100, remaining=99, reset=1"];
    assert_headers("H2", Draft07, &first, &d7);
    let d6 = [
        "ratelimit-limit: 100",
        "ratelimit-policy: 100;w=60",
        "ratelimit-remaining: 99",
        "ratelimit-reset: 1",
    ];
    assert_headers("H3", Draft06, &first, &d6);
    let x =
        |reset| ["x-ratelimit-limit: 100", "x-ratelimit-remaining: 99", reset].map(str::to_owned);
    assert_eq!(headers(XEpoch, &first), x("x-ratelimit-reset: 1700000001"), "H4");
    assert_eq!(headers(XDelta, &first), x("x-ratelimit-reset: 1"), "H5");

    let five = Quota::per_minute(5);
    let first = limiter(five, Algorithm::FixedWindow).check_at(1, 0);
    let first = [told("default", five, first)];
    let d6 = [
        "ratelimit-limit: 5",
        "ratelimit-policy: 5;w=60",
        "ratelimit-remaining: 4",
        "ratelimit-reset: 60",
    ];
    assert_headers("H6", Draft06, &first, &d6);
    let d7 = ["ratelimit-policy: 5;w=60", "ratelimit: limit=5, remaining=4, reset=60"];
    assert_headers("H7", Draft07, &first, &d7);

    let named = [
        ("1-in-5sec", Quota::new(1, Duration::from_secs(5))),
        ("5-in-1min", five),
        ("6-in-1hr", Quota::per_hour(6)),
    ];
    let all = named.map(|(name, quota)| {
        told(name, quota, limiter(quota, Algorithm::FixedWindow).check_at(1, 0))
    });
    let list = "ratelimit: \"1-in-5sec\";r=0;t=5, \"5-in-1min\";r=4;t=60, \"6-in-1hr\";r=5;t=3600";
    assert_eq!(headers(Draft10, &all)[1], list, "H9");
}

/// A vector, a quota, the costs, the wait that is told, and what draft 10 says.
type Refused = (&'static str, Quota, &'static [u64], Option<&'static str>, &'static str);

#[test]
fn h10_to_h22_refusals_tell_when_to_come_back() {
    let sixty = Quota::per_minute(60).burst(10);
    let rows: [Refused; 5] = [
        ("H10", Quota::per_second(5), &[5, 1], Some("1"), "\"default\";r=0;t=1"),
        ("H16", sixty, &[10, 1], Some("1"), "\"default\";r=0;t=1"),
        ("H17", sixty, &[8, 5], Some("3"), "\"default\";r=2;t=1"),
        ("H18", sixty, &[11], None, "\"default\";r=10"),
        ("H19", Quota::per_minute(0), &[1], None, "\"default\";r=0"),
    ];
    for (vector, quota, costs, wait, expected) in rows {
        let told = [told("default", quota, last(quota, costs))];
        let now = || SystemTime::UNIX_EPOCH + NOW;
        let value = longest_wait(&told).and_then(|wait| retry_after(RetryAfter::Delta, wait, now));
        assert_eq!(value.as_ref().map(|value| value.to_str().unwrap()), wait, "{vector}");
        assert_eq!(headers(Draft10, &told)[1], format!("ratelimit: {expected}"), "{vector}");
    }
    let reset = |style| headers(style, &[told("default", sixty, last(sixty, &[10, 1]))]).pop();
    assert_eq!(reset(XDelta).as_deref(), Some("x-ratelimit-reset: 10"), "H16");
    assert_eq!(reset(XEpoch).as_deref(), Some("x-ratelimit-reset: 1700000010"), "H16");
    let policy = |quota| headers(Draft10, &[told("default", quota, last(quota, &[0]))]);
    assert_eq!(policy(Quota::per_minute(0))[0], "ratelimit-policy: \"default\";q=0;w=60", "H19");
    assert_eq!(policy(sixty)[1], "ratelimit: \"default\";r=10", "H20");
    let half = Quota::new(10, Duration::from_millis(500));
    assert_eq!(policy(half)[0], "ratelimit-policy: \"default\";q=10", "H21");
    let odd = Quota::new(7, Duration::from_millis(1_500));
    assert_eq!(policy(odd)[0], "ratelimit-policy: \"default\";q=7", "H22");
    let large = Quota::per_second(1).burst(30);
    assert_eq!(policy(large)[0], "ratelimit-policy: \"default\";q=30;w=30", "a large burst");
}

#[test]
fn h11_to_h15_h42_h47_the_wait_is_rounded_up() {
    let rows = [
        ("H11", Duration::from_nanos(1_000_000_001), "2"),
        ("H12", Duration::from_secs(1), "1"),
        ("H13", Duration::ZERO, "1"),
        ("H47", Duration::from_millis(200), "1"),
    ];
    for (vector, wait, expected) in rows {
        let value = retry_after(RetryAfter::Delta, wait, || SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(value, expected, "{vector}");
    }
    let wait = Duration::from_millis(59_400);
    let date = |now| retry_after(RetryAfter::Date, wait, || SystemTime::UNIX_EPOCH + now).unwrap();
    assert_eq!(date(NOW), "Tue, 14 Nov 2023 22:14:20 GMT", "H14");
    let later = NOW + Duration::from_millis(700);
    assert_eq!(date(later), "Tue, 14 Nov 2023 22:14:21 GMT", "H15");
    // No wait or clock is too much for it.
    for form in [RetryAfter::Delta, RetryAfter::Date] {
        assert!(retry_after(form, Duration::MAX, || SystemTime::UNIX_EPOCH + NOW).is_some());
    }
    for random in [0, 1, u64::MAX / 2, u64::MAX] {
        let wait = lengthened(Duration::from_secs(60), 10, random);
        let value = retry_after(RetryAfter::Delta, wait, || SystemTime::UNIX_EPOCH).unwrap();
        let seconds: u64 = value.to_str().unwrap().parse().unwrap();
        assert!((60..=66).contains(&seconds), "H42: {seconds}");
    }
    assert_eq!(lengthened(Duration::MAX, 255, u64::MAX), Duration::MAX);
}

#[test]
fn h24_to_h26_of_several_the_tightest_is_told_and_the_longest_wait() {
    let hour = limiter(Quota::per_hour(1_000), Algorithm::FixedWindow);
    let day = limiter(Quota::per_day(5_000), Algorithm::FixedWindow);
    let then = 50_400 * 1_000_000_000;
    let both = [
        told("hour", Quota::per_hour(1_000), hour.check_at(100, then)),
        told("day", Quota::per_day(5_000), day.check_at(4_900, then)),
    ];
    let d6 = [
        "ratelimit-limit: 5000",
        "ratelimit-policy: 1000;w=3600, 5000;w=86400",
        "ratelimit-remaining: 100",
        "ratelimit-reset: 36000",
    ];
    assert_headers("H24", Draft06, &both, &d6);

    let second = limiter(Quota::per_second(1), Algorithm::FixedWindow).check_at(1, 0);
    let minute = limiter(Quota::per_minute(1), Algorithm::FixedWindow).check_at(1, 0);
    let spent = [
        told("second", Quota::per_second(1), second),
        told("minute", Quota::per_minute(1), minute),
    ];
    for order in [[0, 1], [1, 0]] {
        let told = order.map(|at| spent[at].clone());
        assert_eq!(headers(XDelta, &told)[2], "x-ratelimit-reset: 60", "H25");
    }

    let refused = |name, wait| Told {
        wait: Some(Duration::from_millis(wait)),
        is_violated: true,
        ..told(name, Quota::per_minute(1), minute)
    };
    let refused = [refused("burst", 300), refused("daily", 42_100)];
    let wait = longest_wait(&refused).unwrap();
    let value = retry_after(RetryAfter::Delta, wait, || SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(value, "43", "H26");
    let body: serde_json::Value = serde_json::from_slice(&problem(violated(&refused))).unwrap();
    assert_eq!(body["violated-policies"], serde_json::json!(["burst", "daily"]), "H26");
}

#[test]
fn h28_to_h32_names_and_numbers_at_their_ends() {
    let one = Quota::per_second(1);
    let escaped = told("a\"b\\c", one, last(one, &[1]));
    let policy = "ratelimit-policy: \"a\\\"b\\\\c\";q=1;w=1";
    assert_eq!(headers(Draft10, &[escaped])[0], policy, "H28");
    for name in ["größe", "two\nlines", ""] {
        assert!(PolicyName::new(name).is_err(), "H29: {name:?}");
    }
    let mut huge = told("huge", one, last(one, &[1]));
    huge.numbers.as_mut().unwrap().policy = (u64::MAX, Some(u64::MAX));
    let policy = "ratelimit-policy: \"huge\";q=999999999999999;w=999999999999999";
    assert_eq!(headers(Draft10, &[huge])[0], policy, "H30");

    // H31, H32. A limit below what is used: nothing is left, not less; and the wait is told.
    let quota = Quota::per_minute(100);
    let limiter = limiter(quota, Algorithm::SlidingWindowLog);
    let second = 1_000_000_000;
    for at in 0..80 {
        assert!(limiter.check_at(1, at * second / 2).is_allowed());
    }
    let lower = Quota::per_minute(50);
    limiter.set_quota_at(lower, 40 * second).unwrap();
    let told = [told("default", lower, limiter.check_at(1, 40 * second))];
    assert_eq!(told[0].numbers.unwrap().remaining, 0, "H31");
    // The 31st token is of 15 s, and leaves sight at 75 s: a tick of the log later at the most.
    let wait = longest_wait(&told).unwrap();
    let value = retry_after(RetryAfter::Delta, wait, || SystemTime::UNIX_EPOCH).unwrap();
    assert!(value == "35" || value == "36", "H32: {value:?}");
}

#[test]
fn h39_problem_details() {
    let none = Quota::per_minute(0);
    let told = [told("default", none, last(none, &[1]))];
    let body: serde_json::Value = serde_json::from_slice(&problem(violated(&told))).unwrap();
    let expected = serde_json::json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "violated-policies": ["default"],
    });
    assert_eq!(body, expected, "H39");
    let plain = text(Some(Duration::from_millis(200)));
    assert_eq!(plain, "Too many requests. Try again in 1 second.\n");
}

/// H49 is an error of the builder.
#[test]
fn h49_draft_07_tells_no_two_quotas_of_one_limit_apart() {
    use crate::keyed::KeyedLimiter;
    use crate::tower::{GateError, GateLayer, Rule};

    let rule = |name, quota| Rule::new(name, KeyedLimiter::new(quota).unwrap()).unwrap();
    let gate = |style| {
        let rules = [rule("second", Quota::per_second(10)), rule("minute", Quota::per_minute(10))];
        let builder = GateLayer::builder().headers(style);
        rules.into_iter().fold(builder, crate::tower::GateBuilder::rule).build()
    };
    let error = GateError::SameLimit { rule: "minute".to_owned(), limit: 10 };
    assert_eq!(gate(Draft07).unwrap_err(), error);
    assert!(gate(Draft10).is_ok());
}

fn grpc_refusal(wait: Option<Duration>) -> Response<bytes::Bytes> {
    let request = Request::builder().header("content-type", "application/grpc").body(()).unwrap();
    grpc::refuse(&Head::from(&request), wait)
}

fn value<'a>(answer: &'a Response<bytes::Bytes>, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn g1_to_g6_refusals_for_grpc() {
    let g1 = "CAgSE3JhdGUgbGltaXQgZXhjZWVkZWQaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5\
              SW5mbxIKCggIARCAyrXuAQ";
    let g2 = "CAgSE3JhdGUgbGltaXQgZXhjZWVkZWQaMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5\
              SW5mbxIECgIIHg";
    let g3 = "CAgSE3JhdGUgbGltaXQgZXhjZWVkZWQaMwoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5\
              SW5mbxIHCgUQgOWadw";
    let rows = [
        ("G1", 1_500_000_000, Some(g1), "1500"),
        ("G2", 30_000_000_000, Some(g2), "30000"),
        ("G3", 250_000_000, Some(g3), "250"),
        ("G4", 200_000, None, "1"),
        ("G6", 30 * 86_400 * 1_000_000_000, None, "2147483647"),
    ];
    for (vector, wait, details, pushback) in rows {
        let answer = grpc_refusal(Some(Duration::from_nanos(wait)));
        assert_eq!((answer.status().as_u16(), answer.body().len()), (200, 0), "{vector}");
        assert_eq!(value(&answer, "content-type"), Some("application/grpc"), "{vector}");
        assert_eq!(value(&answer, "grpc-status"), Some("8"), "{vector}");
        assert_eq!(value(&answer, "grpc-message"), Some("rate%20limit%20exceeded"), "{vector}");
        assert_eq!(value(&answer, "grpc-retry-pushback-ms"), Some(pushback), "{vector}");
        let told = value(&answer, "grpc-status-details-bin").unwrap();
        assert!(details.is_none_or(|details| details == told), "{vector}: {told}");
    }
    let never = grpc_refusal(None);
    assert_eq!(value(&never, "grpc-retry-pushback-ms"), Some("-1"), "G5");
    assert_eq!(value(&never, "grpc-status-details-bin"), None, "G5");
}
