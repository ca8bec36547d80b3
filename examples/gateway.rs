//! A reverse proxy with a gate: `cargo run --release --features axum --example gateway -- http://127.0.0.1:8080`.
//!
//! Passes requests on to the server of that address, which may be written in any language, under the same
//! limits as the example `server`. `--listen ADDRESS` and `--proxy CIDR` as there.

#[path = "http/policy.rs"]
mod policy;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ipnet::IpNet;
use lexopt::prelude::*;

/// Where requests go, and the connections to it.
#[derive(Clone)]
struct Upstream {
    server: Uri,
    client: Client<HttpConnector, Body>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut listen = SocketAddr::from(([127, 0, 0, 1], 3001));
    let mut proxies: Vec<IpNet> = Vec::new();
    let mut server = None;
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("listen") => listen = arguments.value()?.parse()?,
            Long("proxy") => proxies.push(arguments.value()?.parse()?),
            Value(address) if server.is_none() => server = Some(address.parse::<Uri>()?),
            _ => return Err(argument.unexpected().into()),
        }
    }
    let server = server.ok_or("which server? For instance http://127.0.0.1:8080")?;
    if server.scheme_str() != Some("http") || server.authority().is_none() {
        return Err(format!("{server}: it must be http://HOST[:PORT]").into());
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let app = Router::new()
        .fallback(pass_on)
        .with_state(Upstream { server, client })
        .layer(policy::gate(proxies)?)
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind(listen).await?;
    policy::print_what_to_try(listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

async fn pass_on(
    State(upstream): State<Upstream>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request<Body>,
) -> Response {
    let mut to = upstream.server.into_parts();
    to.path_and_query = request.uri().path_and_query().cloned();
    match Uri::from_parts(to) {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return StatusCode::BAD_REQUEST.into_response(),
    }
    // The host is that of the server; the client's address is added to those that are there.
    request.headers_mut().remove(header::HOST);
    if let Ok(peer) = peer.ip().to_string().parse() {
        request.headers_mut().append("x-forwarded-for", peer);
    }
    match upstream.client.request(request).await {
        Ok(response) => response.into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error}\n")).into_response(),
    }
}
