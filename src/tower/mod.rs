//! The middleware for tower's services: rate limits in front of HTTP and gRPC servers.

mod answer;
mod client;
