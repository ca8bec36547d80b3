//! Behaviour: the vectors B and I, each by its number.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::routing::{any, get, post};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use tollgate::tower::{GateLayer, HeaderStyle, Key, Pick, Rule, WithoutKey, route};
use tollgate::{Algorithm, Clock, KeyedLimiter, Permits, Quota};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{ask, from, limiter, permits, status};

/// One limit of so many an hour for each address.
fn hourly(limit: u64) -> GateLayer {
    let rule = Rule::new("default", limiter(Quota::per_hour(limit))).unwrap();
    GateLayer::builder().rule(rule).build().unwrap()
}

/// A service that answers with the status in the path, and counts who comes to it.
fn by_path(calls: &Arc<AtomicU64>) -> Router {
    let calls = Arc::clone(calls);
    Router::new().route(
        "/{status}",
        any(move |path: axum::extract::Path<u16>| async move {
            calls.fetch_add(1, Ordering::Relaxed);
            StatusCode::from_u16(path.0).unwrap()
        }),
    )
}

/// B1. A rule that is not in force charges, and refuses nothing.
#[tokio::test]
async fn b1_a_shadow_charges_and_refuses_nothing() {
    let limiter = Arc::new(limiter(Quota::per_hour(5)));
    let rule = Rule::new("shadow", Arc::clone(&limiter)).unwrap().shadow();
    let builder = GateLayer::builder().rule(rule).headers(HeaderStyle::XDelta).tell_admitted();
    let app = Router::new().route("/", get(|| async {})).layer(builder.build().unwrap());
    for _ in 0..8 {
        let answer = app.clone().oneshot(from("192.0.2.1")).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().keys().all(|name| !name.as_str().contains("ratelimit")));
        assert!(!answer.headers().contains_key(header::RETRY_AFTER));
    }
    let stats = limiter.stats();
    assert_eq!((stats.admitted, stats.refused), (5, 3));
}

/// B2. Preflights pass and are not counted; another OPTIONS is.
#[tokio::test]
async fn b2_preflights_are_not_counted() {
    let app = Router::new().route("/", any(|| async {})).layer(hourly(1));
    for _ in 0..100 {
        let mut request = from("192.0.2.1");
        *request.method_mut() = Method::OPTIONS;
        request.headers_mut().insert(header::ORIGIN, "https://example.org".parse().unwrap());
        let name = header::ACCESS_CONTROL_REQUEST_METHOD;
        request.headers_mut().insert(name, "GET".parse().unwrap());
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), 200);
    }
    let mut plain = from("192.0.2.1");
    *plain.method_mut() = Method::OPTIONS;
    assert_eq!(app.clone().oneshot(plain).await.unwrap().status(), 200);
    assert_eq!(status(&app, from("192.0.2.1")).await, 429);
}

/// B3. Inside of CORS, a refusal can be read by a browser.
#[tokio::test]
async fn b3_a_browser_can_read_a_refusal() {
    let cors = tower_http::cors::CorsLayer::new()
        .allow_origin(tower_http::cors::Any)
        .expose_headers(tollgate::tower::EXPOSE_HEADERS);
    let app = Router::new().route("/", get(|| async {})).layer(hourly(0)).layer(cors);
    let mut request = from("192.0.2.1");
    request.headers_mut().insert(header::ORIGIN, "https://example.org".parse().unwrap());
    let answer = app.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    let exposed = answer.headers()[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
    assert!(exposed.contains("retry-after") && exposed.contains("ratelimit"), "{exposed}");
}

fn failures(limit: u64) -> (Arc<KeyedLimiter<Key>>, GateLayer) {
    let limiter = Arc::new(permits(Quota::per_hour(limit)));
    let rule = Rule::new("log-in", Arc::clone(&limiter)).unwrap().count_failures();
    (limiter, GateLayer::builder().rule(rule).build().unwrap())
}

/// B4, B5, B7. Successes are given back, one each; failures stay, and no success takes them away.
#[tokio::test]
async fn b4_b5_b7_failures_alone_are_counted() {
    let (limiter, gate) = failures(3);
    let key = Key::network("192.0.2.1/32".parse().unwrap());
    let app = by_path(&Arc::default()).layer(gate);
    let get = async |answer: u16| status(&app, ask("192.0.2.1", &format!("/{answer}"))).await;
    for _ in 0..20 {
        assert_eq!(get(200).await, 200);
        assert_eq!(limiter.peek(&key).remaining(), 3);
    }
    assert_eq!(get(401).await, 401);
    assert_eq!(get(200).await, 200);
    assert_eq!(limiter.peek(&key).remaining(), 2, "a success gives back its own alone");
    assert!(get(401).await == 401 && get(401).await == 401);
    assert_eq!(get(200).await, 429, "the right password comes too late");
}

/// B6. Of wrong guesses at the same time no more get through than may fail.
#[tokio::test]
async fn b6_guesses_at_the_same_time_are_counted_when_they_come() {
    let (_, gate) = failures(3);
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let app = gate.layer(service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::task::yield_now().await;
            let mut wrong = Response::new(Body::empty());
            *wrong.status_mut() = StatusCode::UNAUTHORIZED;
            Ok::<_, Infallible>(wrong)
        }
    }));
    let guesses = (0..50).map(|_| app.clone().oneshot(from("192.0.2.1")));
    let answers = futures_util::future::join_all(guesses).await;
    let refused = answers.iter().filter(|answer| answer.as_ref().unwrap().status() == 429).count();
    assert_eq!((calls.load(Ordering::Relaxed), refused), (3, 47));
}

/// B8. What was charged in a window that is over is not given back to the next.
#[tokio::test]
async fn b8_nothing_comes_back_into_another_window() {
    let (clock, time) = Clock::manual();
    let builder = KeyedLimiter::builder(Quota::per_minute(3)).algorithm(Algorithm::FixedWindow);
    let builder = builder.clock(clock).origin(std::time::Duration::ZERO);
    let limiter = Arc::new(builder.permits(Permits::new()).build().unwrap());
    let rule = Rule::new("log-in", Arc::clone(&limiter)).unwrap().count_failures();
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let slow = time.clone();
    let app = gate.layer(service_fn(move |request: Request<Body>| {
        if request.uri().path() == "/slow" {
            slow.advance(std::time::Duration::from_secs(60));
        }
        async { Ok::<_, Infallible>(Response::new(Body::empty())) }
    }));
    let key = Key::network("192.0.2.1/32".parse().unwrap());
    assert_eq!(app.clone().oneshot(ask("192.0.2.1", "/slow")).await.unwrap().status(), 200);
    assert!(limiter.check_n(&key, 3).is_allowed(), "the new window is whole, and no more");
    assert!(!limiter.check(&key).is_allowed());
}

/// B9. A client who hangs up: its charge is settled once, as the rule says of no answer.
#[tokio::test]
async fn b9_who_hangs_up_is_settled_once() {
    let key = Key::network("192.0.2.1/32".parse().unwrap());
    for (counts_failures, left) in [(true, 2), (false, 3)] {
        let limiter = Arc::new(permits(Quota::per_hour(3)));
        let rule = Rule::new("rule", Arc::clone(&limiter)).unwrap();
        let rule = if counts_failures { rule.count_failures() } else { rule.count_successes() };
        let gate = GateLayer::builder().rule(rule).build().unwrap();
        let app = gate.layer(service_fn(|_: Request<Body>| {
            core::future::pending::<Result<Response<Body>, Infallible>>()
        }));
        let mut future = Box::pin(app.oneshot(from("192.0.2.1")));
        assert!(futures_util::poll!(future.as_mut()).is_pending());
        assert_eq!(limiter.peek(&key).remaining(), 2);
        drop(future);
        assert_eq!(limiter.peek(&key).remaining(), left);
    }
}

/// B10, T8. An error of the service is the caller's, as it was; its charge is settled.
#[tokio::test]
async fn b10_t8_errors_pass_through() {
    #[derive(Debug, PartialEq)]
    struct Broken(u8);

    let limiter = Arc::new(permits(Quota::per_hour(3)));
    let rule = Rule::new("rule", Arc::clone(&limiter)).unwrap().count_successes();
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let mut app =
        gate.layer(service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>(Broken(7)) }));
    let error: Broken = app.ready().await.unwrap().call(from("192.0.2.1")).await.unwrap_err();
    assert_eq!(error, Broken(7));
    let key = Key::network("192.0.2.1/32".parse().unwrap());
    assert_eq!(limiter.peek(&key).remaining(), 3);
}

/// B11, B12. The cost that the answer tells is charged, as a debt if need be, and the next waits for it.
#[tokio::test]
async fn b11_b12_a_cost_that_the_answer_tells_is_charged() {
    let (clock, _time) = Clock::manual();
    let builder = KeyedLimiter::builder(Quota::per_second(1).burst(11)).clock(clock);
    let limiter = Arc::new(builder.permits(Permits::new()).build().unwrap());
    let rule = Rule::new("cost", Arc::clone(&limiter))
        .unwrap()
        .settle(|answer| answer.headers["x-cost"].to_str().unwrap().parse().unwrap());
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    // What is internal is taken off outside of the gate.
    let app = Router::new().route("/", get(|| async { [("x-cost", "50")] })).layer(gate).layer(
        axum::middleware::map_response(|mut answer: axum::response::Response| async move {
            answer.headers_mut().remove("x-cost");
            answer
        }),
    );
    let answer = app.clone().oneshot(from("192.0.2.1")).await.unwrap();
    assert_eq!((answer.status(), answer.headers().get("x-cost")), (StatusCode::OK, None));
    let refused = app.clone().oneshot(from("192.0.2.1")).await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "40");
}

/// B14. The service's body is passed on as it is: frames, size, end.
#[tokio::test]
async fn b14_bodies_are_passed_on() {
    use http_body::Body as _;

    let app = hourly(9).layer(service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(http_body_util::Full::new(bytes::Bytes::from("12345"))))
    }));
    let body = app.oneshot(from("192.0.2.1")).await.unwrap().into_body();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(5), false));
    assert_eq!(body.collect().await.unwrap().to_bytes(), "12345");
}

/// B15. A switch of protocols is passed on with what makes it work.
#[tokio::test]
async fn b15_upgrades_are_untouched() {
    #[derive(Clone)]
    struct Upgrade(u8);

    let limiter = Arc::new(limiter(Quota::per_hour(9)));
    let rule = Rule::new("rule", Arc::clone(&limiter)).unwrap();
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let app = gate.layer(service_fn(|request: Request<Body>| async move {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        answer.extensions_mut().extend(
            request
                .extensions()
                .get::<Upgrade>()
                .cloned()
                .map(|upgrade| {
                    let mut extensions = http::Extensions::new();
                    extensions.insert(upgrade);
                    extensions
                })
                .unwrap_or_default(),
        );
        Ok::<_, Infallible>(answer)
    }));
    let mut request = from("192.0.2.1");
    request.extensions_mut().insert(Upgrade(7));
    let answer = app.oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.extensions().get::<Upgrade>().map(|upgrade| upgrade.0), Some(7));
    assert_eq!(limiter.stats().admitted, 1);
}

/// B19, H27. If the second refuses, the first is not charged; the headers tell of both.
#[tokio::test]
async fn b19_h27_all_or_nothing() {
    let (burst, daily) = (Arc::new(limiter(Quota::per_hour(9))), limiter(Quota::per_day(0)));
    let gate = GateLayer::builder()
        .rule(Rule::new("burst", Arc::clone(&burst)).unwrap())
        .rule(Rule::new("daily", daily).unwrap())
        .headers(HeaderStyle::Draft10);
    let app = Router::new().route("/", get(|| async {})).layer(gate.build().unwrap());
    let answer = app.oneshot(from("192.0.2.1")).await.unwrap();
    assert_eq!(answer.status(), 429);
    let policy = answer.headers()["ratelimit-policy"].to_str().unwrap();
    assert!(policy.contains("\"burst\"") && policy.contains("\"daily\""), "{policy}");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["violated-policies"], serde_json::json!(["daily"]));
    let key = Key::network("192.0.2.1/32".parse().unwrap());
    assert_eq!(burst.peek(&key).remaining(), 9);
}

/// B20, H50. What is skipped passes over the quota, is not charged, and is told nothing.
#[tokio::test]
async fn b20_h50_who_is_skipped_is_not_counted() {
    let rule = Rule::new("default", limiter(Quota::per_hour(1))).unwrap();
    let gate = GateLayer::builder()
        .rule(rule)
        .skip(|head| head.uri.path() == "/health")
        .headers(HeaderStyle::XEpoch)
        .tell_admitted();
    let app = Router::new().fallback(|| async {}).layer(gate.build().unwrap());
    for _ in 0..5 {
        let answer = app.clone().oneshot(ask("192.0.2.1", "/health")).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.headers().keys().all(|name| !name.as_str().contains("ratelimit")));
    }
    assert_eq!(status(&app, from("192.0.2.1")).await, 200);
    assert_eq!(status(&app, from("192.0.2.1")).await, 429);
    assert_eq!(status(&app, ask("192.0.2.1", "/health")).await, 200);
}

/// B21. What no route matches is counted by `layer` and not by `route_layer`.
#[tokio::test]
async fn b21_what_no_route_matches() {
    let routes = || Router::new().route("/", get(|| async {}));
    let (all, matched) = (routes().layer(hourly(1)), routes().route_layer(hourly(1)));
    assert_eq!(status(&all, ask("192.0.2.1", "/nowhere")).await, 404);
    assert_eq!(status(&all, from("192.0.2.1")).await, 429);
    assert_eq!(status(&matched, ask("192.0.2.1", "/nowhere")).await, 404);
    assert_eq!(status(&matched, from("192.0.2.1")).await, 200);
}

/// I1, I2. Users are counted apart from addresses, whatever their names.
#[tokio::test]
async fn i1_i2_users_are_no_addresses() {
    #[derive(Clone)]
    struct User(&'static str);

    let client = tollgate::tower::Client::peer();
    let rule = Rule::new("default", limiter(Quota::per_hour(1))).unwrap().by(move |head| {
        let user = head.extensions.get::<User>();
        user.map_or_else(|| client.pick(head), |user| Pick::Count(Key::user(user.0)))
    });
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let app = Router::new().route("/", get(|| async {})).layer(gate);
    let as_user = |id| {
        let mut request = from("192.0.2.1");
        request.extensions_mut().insert(User(id));
        request
    };
    assert_eq!(status(&app, as_user("42")).await, 200);
    assert_eq!(status(&app, as_user("42")).await, 429);
    assert_eq!(status(&app, as_user("192.0.2.1")).await, 200);
    assert_eq!(status(&app, from("192.0.2.1")).await, 200, "the address is nobody's name");
    assert_ne!(Key::user("192.0.2.1"), Key::network("192.0.2.1/32".parse().unwrap()));
}

/// I3, I7. Keys show nothing of what they are made from, and head do not run together.
#[test]
fn i3_i7_keys_are_redacted_and_unambiguous() {
    let shown = format!("{:?}", Key::secret("secret"));
    assert!(!shown.contains("secret"), "{shown}");
    assert_eq!(Key::secret("secret"), Key::secret("secret"));
    assert_ne!(Key::user("a:b").and("c"), Key::user("a").and("b:c"));
    assert_ne!(Key::user("ab").and("c"), Key::user("a").and("bc"));
}

/// I4. Who sends API keys that nobody has given out is counted by address.
#[tokio::test]
async fn i4_unverified_api_keys_do_not_help() {
    let client = tollgate::tower::Client::peer();
    let rule = Rule::new("default", limiter(Quota::per_hour(5))).unwrap().by(move |head| {
        let known = head.headers.get("x-api-key").filter(|key| *key == "known");
        known.map_or_else(|| client.pick(head), |key| Pick::Count(Key::secret(key)))
    });
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let app = Router::new().route("/", get(|| async {})).layer(gate);
    let mut admitted = 0;
    for at in 0..1_000 {
        let mut request = from("192.0.2.1");
        request.headers_mut().insert("x-api-key", format!("random-{at}").parse().unwrap());
        admitted += u32::from(status(&app, request).await == 200);
    }
    assert_eq!(admitted, 5);
}

/// I5, I6, I9. Routes are counted by their pattern, what matches none together, and HEAD as GET.
#[tokio::test]
async fn i5_i6_i9_routes_are_counted_by_their_pattern() {
    let client = tollgate::tower::Client::peer();
    let rule =
        Rule::new("route", limiter(Quota::per_hour(2))).unwrap().by(move |head| {
            match client.pick(head) {
                Pick::Count(key) => Pick::Count(key.and(route(head))),
                pick => pick,
            }
        });
    let gate = GateLayer::builder().rule(rule).build().unwrap();
    let app = Router::new()
        .route("/users/{id}", get(|path: MatchedPath| async move { path.as_str().to_owned() }))
        .route("/other", post(|| async {}).get(|| async {}))
        .layer(gate);
    assert_eq!(status(&app, ask("192.0.2.1", "/users/1")).await, 200);
    let mut head = ask("192.0.2.1", "/users/2");
    *head.method_mut() = Method::HEAD;
    assert_eq!(status(&app, head).await, 200);
    assert_eq!(status(&app, ask("192.0.2.1", "/users/3")).await, 429);
    assert_eq!(status(&app, ask("192.0.2.1", "/other")).await, 200);
    let mut found = 0;
    for at in 0..1_000 {
        found += u32::from(status(&app, ask("192.0.2.1", &format!("/{at}"))).await == 404);
    }
    assert_eq!(found, 2);
}

/// K45. Without a peer's address: an error that says what is missing; or as the gate was told.
#[tokio::test]
async fn k45_without_a_key() {
    let gate = |without| {
        let rule = Rule::new("default", limiter(Quota::per_hour(1))).unwrap();
        GateLayer::builder().rule(rule).without_key(without).build().unwrap()
    };
    let app = |without| Router::new().route("/", get(|| async {})).layer(gate(without));
    let nobody = || Request::new(Body::empty());
    let answer = app(WithoutKey::Fail).oneshot(nobody()).await.unwrap();
    assert_eq!(answer.status(), 500);
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.contains("into_make_service_with_connect_info"), "{text}");
    let (admits, together) = (app(WithoutKey::Admit), app(WithoutKey::CountTogether));
    for (at, wanted) in [200, 429, 429].into_iter().enumerate() {
        assert_eq!(status(&admits, nobody()).await, 200);
        assert_eq!(status(&together, nobody()).await, wanted, "request {at}");
    }
}
