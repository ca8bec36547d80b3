//! What tower asks of a service, and what its users do with one: the vectors T.

use core::convert::Infallible;
use core::future::{Ready, ready};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate::Quota;
use tollgate::tower::{Gate, GateBody, GateFuture, GateLayer, Key, Pick, Rule};
use tower::limit::ConcurrencyLimit;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{from, limiter, status};

fn gate(limit: u64) -> GateLayer {
    let rule = Rule::new("default", limiter(Quota::per_hour(limit))).unwrap();
    GateLayer::builder().rule(rule).build().unwrap()
}

type Empty = Response<Full<bytes::Bytes>>;

async fn empty(_: Request<Body>) -> Result<Empty, Infallible> {
    Ok(Response::default())
}

/// T1. Clones, as each connection has one, share the limits.
#[tokio::test]
async fn t1_clones_share_the_limits() {
    let app = Router::new().route("/", get(|| async {})).layer(gate(5));
    let calls = (0..50).map(|_| {
        let connection = app.clone();
        tokio::spawn(async move {
            let mut admitted = 0;
            for _ in 0..30 {
                admitted += u32::from(status(&connection, from("192.0.2.1")).await == 200);
            }
            admitted
        })
    });
    let calls: Vec<_> = calls.collect();
    let mut admitted = 0;
    for call in calls {
        admitted += call.await.unwrap();
    }
    assert_eq!(admitted, 5);
}

/// A service that is ready when it is told to be, and knows whether it was asked.
#[derive(Clone, Default)]
struct Slow {
    is_ready: Arc<AtomicU64>,
    was_asked: bool,
}

impl Service<Request<Body>> for Slow {
    type Response = Empty;
    type Error = Infallible;
    type Future = Ready<Result<Empty, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.is_ready.load(Ordering::Relaxed) == 0 {
            return Poll::Pending;
        }
        self.was_asked = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.was_asked), "called without being asked");
        ready(Ok(Response::default()))
    }
}

/// T2, T3. Readiness is the service's, and asking for it charges nothing.
#[test]
fn t2_t3_to_ask_whether_it_is_ready_charges_nothing() {
    let limiter = Arc::new(limiter(Quota::per_hour(5)));
    let rule = Rule::new("default", Arc::clone(&limiter)).unwrap();
    let slow = Slow::default();
    let mut app = GateLayer::builder().rule(rule).build().unwrap().layer(slow.clone());
    let mut context = Context::from_waker(Waker::noop());
    for ready in [0, 1] {
        slow.is_ready.store(ready, Ordering::Relaxed);
        for _ in 0..10 {
            assert_eq!(app.poll_ready(&mut context).is_ready(), ready == 1);
        }
    }
    drop(app);
    assert_eq!(limiter.stats(), tollgate::Stats::default());
}

/// T4. The service that was asked is the one that is called, held or not.
#[tokio::test]
async fn t4_the_service_that_was_asked_is_called() {
    let slow = Slow::default();
    slow.is_ready.store(1, Ordering::Relaxed);
    let rule = || Rule::new("default", limiter(Quota::per_hour(5))).unwrap();
    let plain = GateLayer::builder().rule(rule());
    let holding = GateLayer::builder().rule(rule());
    let second = std::time::Duration::from_secs(1);
    let holding = holding.hold(second, 9, tollgate::TokioSleeper);
    for builder in [plain, holding] {
        let mut app = builder.build().unwrap().layer(slow.clone());
        for _ in 0..3 {
            let answer = app.ready().await.unwrap().call(from("192.0.2.1")).await.unwrap();
            assert_eq!(answer.status(), 200);
        }
    }
}

/// T5. A refused request takes no place of the service for good.
#[tokio::test]
async fn t5_a_refusal_holds_no_place_of_the_service() {
    let mut app = gate(1).layer(ConcurrencyLimit::new(service_fn(empty), 1));
    for wanted in [200, 429, 429] {
        let answer = app.ready().await.unwrap().call(from("192.0.2.1")).await.unwrap();
        assert_eq!(answer.status(), wanted);
    }
    let answer = app.ready().await.unwrap().call(from("192.0.2.2")).await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// T6, T7, T9. It is a layer for axum's routes without an error handler, whatever its closures own.
#[tokio::test]
async fn t6_t7_it_is_a_layer_as_it_is() {
    fn is_a_layer<L>(layer: L) -> L
    where
        L: Layer<axum::routing::Route> + Clone + Send + Sync + 'static,
    {
        layer
    }

    struct NotClone;
    let owned = NotClone;
    let rule = Rule::new("default", limiter(Quota::per_hour(1))).unwrap().by(move |_| {
        let _ = &owned;
        Pick::Count(Key::everyone())
    });
    let gate = is_a_layer(GateLayer::builder().rule(rule).build().unwrap());
    let app = Router::new().route("/", get(|| async {})).layer(gate);
    assert_eq!(status(&app, from("192.0.2.1")).await, 200);
    assert_eq!(status(&app, from("192.0.2.2")).await, 429);
}

/// T10. Where the peer is found.
#[tokio::test]
async fn t10_peers_are_found_where_servers_put_them() {
    let peer = SocketAddr::from(([192, 0, 2, 1], 50_000));
    let app = || Router::new().route("/", get(|| async {})).layer(gate(9));
    let nobody = || Request::new(Body::empty());
    assert_eq!(status(&app(), nobody()).await, 500);
    assert_eq!(status(&app(), from("192.0.2.1")).await, 200);
    assert_eq!(status(&app().layer(MockConnectInfo(peer)), nobody()).await, 200);
    let mut bare = nobody();
    bare.extensions_mut().insert(peer);
    assert_eq!(status(&app(), bare).await, 200);
    let mut bare = nobody();
    bare.extensions_mut().insert(peer.ip());
    assert_eq!(status(&app(), bare).await, 200);
    let mut tonic = nobody();
    let info =
        tonic::transport::server::TcpConnectInfo { local_addr: None, remote_addr: Some(peer) };
    tonic.extensions_mut().insert(info);
    assert_eq!(status(&app(), tonic).await, 200);
}

/// T11. The future is named, and can be sent if the service's can; it is not boxed.
#[test]
fn t11_the_future_is_sent_if_the_services_is() {
    fn is_send<T: Send>(_: &T) {}

    let mut app: Gate<Slow> = gate(9).layer(Slow::default());
    app.poll_ready(&mut Context::from_waker(Waker::noop())).is_pending();
    app = gate(0).layer(Slow::default());
    let future: GateFuture<Slow, Body> = app.call(from("192.0.2.1"));
    is_send(&future);
    let mut future = pin!(future);
    let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(answer)) = polled else { panic!("a refusal is there at once") };
    let answer: Response<GateBody<Full<bytes::Bytes>>> = answer;
    // T12. Its status is a refusal's, without a layer that turns errors into responses.
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
}
