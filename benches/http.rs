//! What the middleware costs: requests a second of a trivial hyper service, by itself, behind a gate that admits,
//! and behind one that refuses; and of a service that answers what a refusal does, behind a gate that admits.
//!
//!   cargo bench --features tower --bench http
//!
//! Each server has a thread, and clients on another ask without pause over connections that stay. Of each service
//! there are several servers, since one may lie better in memory than another by more than the gate costs. They
//! take turns; what counts is the median of the ratios within a turn.

use std::array;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tollgate::Quota;
use tollgate::tower::GateLayer;
use tower::util::MapRequest;
use tower::{Layer, Service, service_fn};

const CONNECTIONS: usize = 16;
/// Servers of each service.
const SERVERS: usize = 5;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n";

/// What a server answers with.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Admits,
    Refuses,
    /// Admits to a service that answers as long as a refusal is.
    AdmitsAtLength,
}

const SERVICES: [(&str, Kind); 4] = [
    ("plain", Kind::Plain),
    ("admitted", Kind::Admits),
    ("refused", Kind::Refuses),
    ("admitted, at a refusal's length", Kind::AdmitsAtLength),
];

/// A refusal, as the gate writes it.
const PROBLEM: &str = r#"{"status":429,"title":"Request cannot be satisfied as assigned quota has been exceeded","type":"https://iana.org/assignments/http-problem-types#quota-exceeded","violated-policies":["default"]}"#;

async fn hello<B>(_: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

async fn problem<B>(_: Request<B>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut answer = Response::new(Full::new(Bytes::from_static(PROBLEM.as_bytes())));
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    Ok(answer)
}

fn gate(kind: Kind) -> GateLayer {
    let quota = match kind {
        // But for one a second, everything.
        Kind::Refuses => Quota::per_second(1),
        Kind::Plain | Kind::Admits | Kind::AdmitsAtLength => Quota::per_second(1_000_000_000),
    };
    GateLayer::new(quota).unwrap()
}

/// A server in a thread of its own.
fn serve(kind: Kind) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let gate = gate(kind);
            while let Ok((stream, peer)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let gate = gate.clone();
                tokio::spawn(async move {
                    match kind {
                        Kind::Plain => answer(stream, peer, service_fn(hello)).await,
                        Kind::Admits | Kind::Refuses => {
                            answer(stream, peer, gate.layer(service_fn(hello))).await;
                        }
                        Kind::AdmitsAtLength => {
                            answer(stream, peer, gate.layer(service_fn(problem))).await;
                        }
                    }
                });
            }
        });
    });
    address
}

/// Answers the requests of a connection.
async fn answer<S, B>(stream: tokio::net::TcpStream, peer: SocketAddr, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    // Every server has to say who is connected.
    let add_peer = move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request
    };
    let service = TowerToHyperService::new(MapRequest::new(service, add_peer));
    let server = auto::Builder::new(TokioExecutor::new());
    // A connection that the clients have closed has ended well.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

/// The clients of a server, each by a connection that stays, with a request under way.
fn connect(address: SocketAddr) -> [TcpStream; CONNECTIONS] {
    array::from_fn(|_| {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_nodelay(true).unwrap();
        client.write_all(REQUEST).unwrap();
        client
    })
}

/// Requests a second that a server gets through in this time. The clients do as little as they can, so that
/// it is the server that has no pause.
fn ask(clients: &mut [TcpStream], time: Duration) -> f64 {
    let start = Instant::now();
    let mut buffer = [0; 1_024];
    let mut answered = 0_u64;
    while start.elapsed() < time {
        for client in &mut *clients {
            // An answer is one write of the server's, and one read here.
            assert!(client.read(&mut buffer).unwrap() > 0);
            client.write_all(REQUEST).unwrap();
            answered += 1;
        }
    }
    answered as f64 / start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // As criterion's benches, it is tried out once by `cargo bench -- --test`.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let (rounds, time) = if is_test { (1, 50) } else { (800, 20) };
    let mut clients: [_; SERVERS] =
        array::from_fn(|_| SERVICES.map(|(_, kind)| connect(serve(kind))));
    let mut rates = SERVICES.map(|_| Vec::new());
    for round in 0..rounds {
        if round % 50 == 0 {
            eprint!("\rround {round} of {rounds}");
        }
        // Each is the first in as many rounds as any other, and comes as often before another as after it.
        let mut order: [usize; SERVICES.len()] = array::from_fn(|turn| turn);
        order.rotate_left(round / 2 % SERVICES.len());
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let clients = &mut clients[round % SERVERS][at];
            rates[at].push(ask(clients, Duration::from_millis(time)));
        }
    }
    eprintln!();
    let ratio = |at: usize, to: usize| {
        let pairs = rates[to].iter().zip(&rates[at]);
        median(pairs.map(|(one, other)| other / one).collect())
    };
    println!("{:<32}{:>14}{:>12}", "service", "requests/s", "of plain");
    for (at, (name, _)) in SERVICES.into_iter().enumerate() {
        println!("{name:<32}{:>14.0}{:>12.3}", median(rates[at].clone()), ratio(at, 0));
    }
    println!("\na refusal, of an answer of its length that is admitted: {:.3}", ratio(2, 3));
}
