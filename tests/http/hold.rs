//! Requests that wait for their turn instead of being refused; in tokio's time, which tests move.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response, header};
use tollgate::tower::{GateLayer, Key, Rule};
use tollgate::{Algorithm, Clock, KeyedLimiter, ManualClock, Quota, Sleeper};
use tower::{Layer, ServiceExt, service_fn};

use crate::from;

/// A timer of tokio's, with a limiter's clock that goes with it.
#[derive(Clone)]
struct Timers {
    time: ManualClock,
    start: tokio::time::Instant,
}

impl Sleeper for Timers {
    type Sleep = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

    fn sleep(&self, wait: Duration) -> Self::Sleep {
        let Timers { time, start } = self.clone();
        Box::pin(async move {
            // Timers of tokio have a millisecond.
            tokio::time::sleep(wait + Duration::from_millis(1)).await;
            time.set(start.elapsed());
        })
    }
}

fn timers() -> (Clock, Timers) {
    let (clock, time) = Clock::manual();
    (clock, Timers { time, start: tokio::time::Instant::now() })
}

async fn empty(_: Request<Body>) -> Result<Response<Body>, core::convert::Infallible> {
    Ok(Response::new(Body::empty()))
}

fn limiter(quota: Quota, algorithm: Algorithm, clock: Clock) -> Arc<KeyedLimiter<Key>> {
    Arc::new(KeyedLimiter::builder(quota).algorithm(algorithm).clock(clock).build().unwrap())
}

/// What comes too early waits, in order, as long as it may and as many as may; others are refused.
#[tokio::test(start_paused = true)]
async fn who_comes_too_early_waits_its_turn() {
    let (clock, timers) = timers();
    let limiter = limiter(Quota::per_second(10).burst(1), Algorithm::TokenBucket, clock);
    let rule = Rule::new("default", limiter).unwrap();
    let gate = GateLayer::builder().rule(rule).hold(Duration::from_millis(450), 3, timers);
    let app = gate.build().unwrap().layer(service_fn(empty));
    let start = tokio::time::Instant::now();
    let calls: Vec<_> = (0..6)
        .map(|_| {
            let call = app.clone().oneshot(from("192.0.2.1"));
            tokio::spawn(async move { (call.await.unwrap(), start.elapsed()) })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        let (answer, after) = call.await.unwrap();
        answers.push((answer.status().as_u16(), after.as_millis() / 100));
    }
    // One at once, three in their turn, and for two there is no place.
    assert_eq!(answers, [(200, 0), (200, 1), (200, 2), (200, 3), (429, 0), (429, 0)]);
}

/// A wait that would be too long is refused at once, and told.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_is_refused() {
    let (clock, timers) = timers();
    let limiter = limiter(Quota::per_minute(1), Algorithm::TokenBucket, clock);
    let rule = Rule::new("default", limiter).unwrap();
    let gate = GateLayer::builder().rule(rule).hold(Duration::from_secs(5), 9, timers);
    let app = gate.build().unwrap().layer(service_fn(empty));
    assert_eq!(app.clone().oneshot(from("192.0.2.1")).await.unwrap().status(), 200);
    let refused = app.clone().oneshot(from("192.0.2.1")).await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()[header::RETRY_AFTER]),
        (429, &"60".parse().unwrap())
    );
}

/// Who hangs up while it waits leaves the line, and its place.
#[tokio::test(start_paused = true)]
async fn who_hangs_up_leaves_the_line() {
    let (clock, timers) = timers();
    let limiter = limiter(Quota::per_second(1).burst(1), Algorithm::TokenBucket, clock);
    let rule = Rule::new("default", Arc::clone(&limiter)).unwrap();
    let gate = GateLayer::builder().rule(rule).hold(Duration::from_secs(5), 1, timers);
    let app = gate.build().unwrap().layer(service_fn(empty));
    assert_eq!(app.clone().oneshot(from("192.0.2.1")).await.unwrap().status(), 200);
    for _ in 0..3 {
        let mut held = Box::pin(app.clone().oneshot(from("192.0.2.1")));
        assert!(futures_util::poll!(held.as_mut()).is_pending());
        assert_eq!(app.clone().oneshot(from("192.0.2.1")).await.unwrap().status(), 429);
        drop(held);
    }
    // Nobody's turn was used up.
    let answer = app.clone().oneshot(from("192.0.2.1"));
    let start = tokio::time::Instant::now();
    assert_eq!(answer.await.unwrap().status(), 200);
    assert_eq!(start.elapsed().as_secs(), 1);
}

/// Under a leaky bucket requests leave one by one, from the first on.
#[tokio::test(start_paused = true)]
async fn a_queue_lets_requests_out_one_by_one() {
    let (clock, timers) = timers();
    let limiter = limiter(Quota::per_second(10).burst(4), Algorithm::LeakyBucket, clock);
    let rule = Rule::new("default", limiter).unwrap();
    let gate = GateLayer::builder().rule(rule).hold(Duration::from_secs(1), 9, timers);
    let app = gate.build().unwrap().layer(service_fn(empty));
    let start = tokio::time::Instant::now();
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let call = app.clone().oneshot(from("192.0.2.1"));
            tokio::spawn(async move { (call.await.unwrap().status().as_u16(), start.elapsed()) })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        let (status, after) = call.await.unwrap();
        answers.push((status, after.as_millis() / 100));
    }
    assert_eq!(answers, [(200, 0), (200, 1), (200, 2), (200, 3), (429, 0)]);
}

/// With several rules a request asks again when the longest wait is over, and is charged to none before.
#[tokio::test(start_paused = true)]
async fn several_rules_are_asked_again() {
    let (clock, timers) = timers();
    let second = limiter(Quota::per_second(1).burst(1), Algorithm::TokenBucket, clock.clone());
    let day = limiter(Quota::per_day(2), Algorithm::TokenBucket, clock);
    let gate = GateLayer::builder()
        .rule(Rule::new("second", second).unwrap())
        .rule(Rule::new("day", Arc::clone(&day)).unwrap())
        .hold(Duration::from_secs(3), 9, timers);
    let app = gate.build().unwrap().layer(service_fn(empty));
    let start = tokio::time::Instant::now();
    for wanted in [200, 200, 429] {
        let answer = app.clone().oneshot(from("192.0.2.1")).await.unwrap();
        assert_eq!(answer.status(), wanted);
    }
    assert_eq!(start.elapsed().as_secs(), 1);
    assert_eq!(day.stats().admitted, 2);
}

/// Late timers do not make the wait longer than it may be: what was waited is told by the clock, not by what
/// the timers were asked for.
#[tokio::test(start_paused = true)]
async fn late_timers_do_not_prolong_the_wait() {
    let (clock, timers) = timers();
    let quick = limiter(Quota::per_second(1_000).burst(1), Algorithm::TokenBucket, clock.clone());
    let day = limiter(Quota::per_day(9), Algorithm::TokenBucket, clock);
    let key = Key::network("192.0.2.1/32".parse().unwrap());
    let taken = Arc::clone(&quick);
    // Somebody else is always quicker, and a timer of a millisecond takes a tenth of a second.
    let late = move |wait: Duration| -> <Timers as Sleeper>::Sleep {
        let (timers, taken) = (timers.clone(), Arc::clone(&taken));
        Box::pin(async move {
            timers.sleep(wait + Duration::from_millis(99)).await;
            assert!(taken.check(&key).is_allowed());
        })
    };
    assert!(quick.check(&key).is_allowed());
    let gate = GateLayer::builder()
        .rule(Rule::new("quick", quick).unwrap())
        .rule(Rule::new("day", day).unwrap())
        .hold(Duration::from_millis(50), 9, Late(late));
    let app = gate.build().unwrap().layer(service_fn(empty));
    let start = tokio::time::Instant::now();
    assert_eq!(app.oneshot(from("192.0.2.1")).await.unwrap().status(), 429);
    assert_eq!(start.elapsed().as_millis() / 100, 1);
}

/// A function as a timer.
struct Late<F>(F);

impl<F: Fn(Duration) -> <Timers as Sleeper>::Sleep> Sleeper for Late<F> {
    type Sleep = <Timers as Sleeper>::Sleep;

    fn sleep(&self, wait: Duration) -> Self::Sleep {
        (self.0)(wait)
    }
}
