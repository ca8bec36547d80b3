//! What the middleware costs: requests a second of a trivial hyper service, by itself, behind a gate that admits,
//! and behind one that refuses.
//!
//!   cargo bench --features tower --bench http
//!
//! Each server has a thread, and clients on another ask without pause over connections that stay. The three take
//! turns; what counts is the median of the ratios within a turn.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::Quota;
use tollgate::tower::GateLayer;
use tower::{Layer, service_fn};

const CONNECTIONS: usize = 16;

/// What a server answers with.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Admits,
    Refuses,
}

async fn hello<B>(_: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

fn gate(kind: Kind) -> GateLayer {
    let quota = match kind {
        // Used up by its first request, but for one an hour.
        Kind::Refuses => Quota::per_hour(1),
        Kind::Plain | Kind::Admits => Quota::per_second(1_000_000_000),
    };
    GateLayer::new(quota).unwrap()
}

/// A server in a thread of its own.
fn serve(kind: Kind) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            let layer = gate(kind);
            while let Ok((stream, peer)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let layer = layer.clone();
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let stream = TokioIo::new(stream);
                    // Every server has to say who is connected.
                    let add_peer = move |mut request: Request<hyper::body::Incoming>| {
                        request.extensions_mut().insert(peer);
                        request
                    };
                    let plain = tower::util::MapRequest::new(service_fn(hello), add_peer);
                    let result = match kind {
                        Kind::Plain => {
                            let service = TowerToHyperService::new(plain);
                            server.serve_connection(stream, service).await
                        }
                        Kind::Admits | Kind::Refuses => {
                            let gated = layer.layer(service_fn(hello));
                            let gated = tower::util::MapRequest::new(gated, add_peer);
                            let service = TowerToHyperService::new(gated);
                            server.serve_connection(stream, service).await
                        }
                    };
                    // A connection that the clients have closed has ended well.
                    drop(result);
                });
            }
        });
    });
    address
}

/// Requests a second that clients get through in this time.
async fn ask(address: SocketAddr, time: Duration) -> f64 {
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
        clients.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut buffer = [0; 1_024];
            while !is_over.load(Ordering::Relaxed) {
                stream.write_all(b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n").await.unwrap();
                // An answer is one write of the server's, and one read here.
                assert!(stream.read(&mut buffer).await.unwrap() > 0);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let start = Instant::now();
    tokio::time::sleep(time).await;
    let rate = answered.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    rate
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // As criterion's benches, it is tried out once by `cargo bench -- --test`.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let (rounds, time) = if is_test { (1, 50) } else { (21, 500) };
    let servers = [Kind::Plain, Kind::Admits, Kind::Refuses].map(serve);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rates = [const { Vec::new() }; 3];
    for round in 0..rounds {
        eprint!("\rround {} of {rounds}", round + 1);
        // Each is the first in a third of the rounds.
        for turn in 0..3 {
            let at = (round + turn) % 3;
            let rate = runtime.block_on(ask(servers[at], Duration::from_millis(time)));
            rates[at].push(rate);
        }
    }
    eprintln!();
    let ratio = |at: usize| {
        let pairs = rates[0].iter().zip(&rates[at]);
        median(pairs.map(|(plain, gated)| gated / plain).collect())
    };
    println!("{:<12}{:>14}{:>12}", "service", "requests/s", "of plain");
    for (at, name) in ["plain", "admitted", "refused"].into_iter().enumerate() {
        println!("{name:<12}{:>14.0}{:>12.3}", median(rates[at].clone()), ratio(at));
    }
}
