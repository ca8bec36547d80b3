//! Headers of layers within layers, and of services that tell something by themselves.

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use tollgate::Quota;
use tollgate::tower::{GateLayer, HeaderStyle, Rule};
use tower::ServiceExt;

use crate::{from, limiter};

/// A limit of this name, that tells admitted requests.
fn gate(name: &str, limit: u64, style: HeaderStyle) -> GateLayer {
    let rule = Rule::new(name, limiter(Quota::per_hour(limit))).unwrap();
    GateLayer::builder().rule(rule).headers(style).tell_admitted().build().unwrap()
}

async fn ask(app: Router) -> Response<Body> {
    app.oneshot(from("192.0.2.1")).await.unwrap()
}

fn told<'a>(answer: &'a Response<Body>, name: &str) -> Vec<&'a str> {
    answer.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

/// H34, H35. Of two layers the one with less left is told, whichever is inside; of draft 10 both are.
#[tokio::test]
async fn h34_h35_the_tighter_of_two_layers_is_told() {
    for (inner, outer) in [(4, 100), (100, 4)] {
        for style in [HeaderStyle::XEpoch, HeaderStyle::XDelta] {
            let layers = hello().layer(gate("inner", inner, style));
            let answer = ask(layers.layer(gate("outer", outer, style))).await;
            assert_eq!(told(&answer, "x-ratelimit-limit"), ["4"]);
            assert_eq!(told(&answer, "x-ratelimit-remaining"), ["3"]);
            assert_eq!(told(&answer, "x-ratelimit-reset").len(), 1);
        }
        let layers = hello().layer(gate("inner", inner, HeaderStyle::Draft07));
        let answer = ask(layers.layer(gate("outer", outer, HeaderStyle::Draft07))).await;
        assert_eq!(told(&answer, "ratelimit"), ["limit=4, remaining=3, reset=900"]);
        let layers = hello().layer(gate("inner", inner, HeaderStyle::Draft06));
        let answer = ask(layers.layer(gate("outer", outer, HeaderStyle::Draft06))).await;
        assert_eq!(told(&answer, "ratelimit-remaining"), ["3"]);
    }
    let layers = hello().layer(gate("inner", 4, HeaderStyle::Draft10));
    let answer = ask(layers.layer(gate("outer", 100, HeaderStyle::Draft10))).await;
    assert_eq!(told(&answer, "ratelimit"), ["\"inner\";r=3;t=900", "\"outer\";r=99;t=36"]);
    let policies = ["\"inner\";q=4;w=3600", "\"outer\";q=100;w=3600"];
    assert_eq!(told(&answer, "ratelimit-policy"), policies);
}

/// H33. What the service says of when to come back is its own.
#[tokio::test]
async fn h33_the_services_own_retry_after_stays() {
    let busy = get(|| async { (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "120")]) });
    let app = Router::new().route("/", busy).layer(gate("default", 9, HeaderStyle::Draft10));
    let answer = ask(app).await;
    assert_eq!(answer.status(), 503);
    assert_eq!(told(&answer, "retry-after"), ["120"]);
}

/// H36. A redirection is not held up by a quota that is used up.
#[tokio::test]
async fn h36_a_redirection_says_not_that_nothing_is_left() {
    let moved = || get(|| async { (StatusCode::MOVED_PERMANENTLY, [("location", "/x")]) });
    for (style, name) in [
        (HeaderStyle::Draft10, "ratelimit"),
        (HeaderStyle::Draft07, "ratelimit"),
        (HeaderStyle::Draft06, "ratelimit-remaining"),
        (HeaderStyle::XEpoch, "x-ratelimit-remaining"),
        (HeaderStyle::XDelta, "x-ratelimit-remaining"),
    ] {
        let app = |limit| Router::new().route("/", moved()).layer(gate("default", limit, style));
        let (none, some) = (ask(app(1)).await, ask(app(2)).await);
        assert_eq!((none.status(), told(&none, name).len()), (StatusCode::MOVED_PERMANENTLY, 0));
        assert_eq!(told(&some, name).len(), 1);
    }
}

/// H37. Who must not know how many guesses are left is told when to come back alone.
#[tokio::test]
async fn h37_a_hidden_quota_is_not_told() {
    let rule = Rule::new("log-in", limiter(Quota::per_hour(1))).unwrap().hide_quota();
    let gate = GateLayer::builder().rule(rule).headers(HeaderStyle::Draft10).tell_admitted();
    let app = hello().layer(gate.build().unwrap());
    for status in [200, 429] {
        let answer = ask(app.clone()).await;
        assert_eq!(answer.status(), status);
        assert!(answer.headers().keys().all(|name| !name.as_str().contains("ratelimit")));
        let expected: &[&str] = if status == 429 { &["3600"] } else { &[] };
        assert_eq!(told(&answer, "retry-after"), expected);
    }
}

/// H38, H43. A refusal of HEAD has the headers and no body; none is kept in a cache.
#[tokio::test]
async fn h38_h43_a_refusal_of_head_has_no_body_and_none_is_cached() {
    for method in [Method::GET, Method::HEAD] {
        let mut request = from("192.0.2.1");
        *request.method_mut() = method.clone();
        let app = hello().layer(gate("default", 0, HeaderStyle::Draft10));
        let answer = app.oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 429);
        assert_eq!(told(&answer, "cache-control"), ["no-store"]);
        assert_eq!(told(&answer, "ratelimit"), ["\"default\";r=0"]);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.is_empty(), method == Method::HEAD);
    }
}

/// H48. What comes back after it was told is told with the next answer.
#[tokio::test]
async fn h48_what_has_come_back_is_told_next() {
    let limiter = std::sync::Arc::new(limiter(Quota::per_hour(2)));
    let rule = Rule::new("default", std::sync::Arc::clone(&limiter)).unwrap();
    let gate = GateLayer::builder().rule(rule).headers(HeaderStyle::XDelta).tell_admitted();
    let app = hello().layer(gate.build().unwrap());
    let key = tollgate::tower::Key::network("192.0.2.1/32".parse().unwrap());
    for (refunded, remaining) in [(0, "1"), (0, "0"), (2, "1"), (99, "1")] {
        limiter.refund(&key, refunded);
        let answer = ask(app.clone()).await;
        assert_eq!(told(&answer, "x-ratelimit-remaining"), [remaining]);
    }
}

/// A response of one's own has what it leaves out added, and keeps what it says.
#[tokio::test]
async fn a_refusal_of_ones_own() {
    let rule = Rule::new("default", limiter(Quota::per_hour(0))).unwrap();
    let gate = GateLayer::builder().rule(rule).headers(HeaderStyle::Draft10);
    let gate = gate.refuse_with(|refusal, request| {
        assert_eq!(refusal.retry_after(), None);
        assert_eq!(request.uri.path(), "/");
        let names: Vec<&str> = refusal.violated().collect();
        let mut answer = Response::new(bytes::Bytes::from(names.join(", ")));
        *answer.status_mut() = StatusCode::FORBIDDEN;
        answer.headers_mut().insert(header::CACHE_CONTROL, "private".parse().unwrap());
        answer
    });
    let answer = ask(hello().layer(gate.build().unwrap())).await.into_response();
    assert_eq!(answer.status(), 403);
    assert_eq!(told(&answer, "cache-control"), ["private"]);
    assert_eq!(told(&answer, "ratelimit"), ["\"default\";r=0"]);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "default");
}
