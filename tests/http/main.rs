//! The middleware, by the vectors of its conventions: headers (H), gRPC (G), clients (K), prefixes (P),
//! identities (I), behaviour (B) and tower's contract (T). `vectors.rs` says where each is.

mod behaviour;
mod client;
mod contract;
mod grpc;
mod hold;
mod nested;
mod vectors;

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, StatusCode};
use tollgate::tower::Key;
use tollgate::{Clock, KeyedLimiter, Permits, Quota};
use tower::ServiceExt;

/// A limiter whose clock stands still.
fn limiter(quota: Quota) -> KeyedLimiter<Key> {
    KeyedLimiter::builder(quota).clock(Clock::manual().0).build().unwrap()
}

/// The same, built for permits.
fn permits(quota: Quota) -> KeyedLimiter<Key> {
    let builder = KeyedLimiter::builder(quota).clock(Clock::manual().0);
    builder.permits(Permits::new()).build().unwrap()
}

/// A request for `/` from this address.
fn from(address: &str) -> Request<Body> {
    ask(address, "/")
}

/// A request from this address.
fn ask(address: &str, path: &str) -> Request<Body> {
    let peer = SocketAddr::new(address.parse().unwrap(), 50_000);
    let request = Request::builder().uri(path).extension(ConnectInfo(peer));
    request.body(Body::empty()).unwrap()
}

async fn status(app: &Router, request: Request<Body>) -> StatusCode {
    app.clone().oneshot(request).await.unwrap().status()
}
