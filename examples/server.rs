//! An HTTP server behind a gate: `cargo run --release --features axum --example server`.
//!
//! Strangers get five requests a second by address, whoever has an API key fifty, and a log-in five failures a
//! minute. `--listen ADDRESS` chooses where; `--proxy CIDR` names a proxy whose X-Forwarded-For is trusted, and
//! may be given more than once.

#[path = "http/policy.rs"]
mod policy;

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use ipnet::IpNet;
use lexopt::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut listen = SocketAddr::from(([127, 0, 0, 1], 3000));
    let mut proxies: Vec<IpNet> = Vec::new();
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("listen") => listen = arguments.value()?.parse()?,
            Long("proxy") => proxies.push(arguments.value()?.parse()?),
            _ => return Err(argument.unexpected().into()),
        }
    }
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/health", get(|| async { "ok\n" }))
        .route("/login", post(log_in))
        .layer(policy::gate(proxies)?)
        // The gate has to know who is connected.
        .into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind(listen).await?;
    policy::print_what_to_try(listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

async fn log_in(password: String) -> (StatusCode, &'static str) {
    match password.as_str() {
        "secret" => (StatusCode::OK, "welcome\n"),
        _ => (StatusCode::UNAUTHORIZED, "wrong password\n"),
    }
}
