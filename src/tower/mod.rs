//! The middleware for tower's services: rate limits in front of HTTP and gRPC servers.
//!
//! [`GateLayer`] is put in front of a service; it holds [`Rule`]s, each of which counts requests by a [`Key`]: a
//! [`Client`]'s network, a user, a secret, a route. The guide has recipes: [HTTP](crate::guide::http).
//!
//! ```
//! use tollgate::Quota;
//! use tollgate::tower::GateLayer;
//!
//! // Ten a second for each client.
//! let gate = GateLayer::new(Quota::per_second(10))?;
//! // With axum: Router::new().route("/", get(hello)).layer(gate)
//! # Ok::<(), tollgate::BuildError>(())
//! ```

mod answer;
mod body;
mod builder;
mod client;
mod future;
mod gate;
mod head;
mod hold;
mod key;
mod layer;
mod reply;
mod rule;

pub use answer::{EXPOSE_HEADERS, HeaderStyle, PolicyError, PolicyName, RetryAfter};
pub use body::GateBody;
pub use builder::{GateBuilder, GateError};
pub use client::{Client, ClientError, Forwarding, Trust};
pub use future::GateFuture;
pub use gate::WithoutKey;
pub use head::Head;
pub use key::{Key, route};
pub use layer::{Gate, GateLayer};
pub use reply::Refusal;
pub use rule::{Pick, Rule};
