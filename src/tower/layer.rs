//! The layer and the service.

use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use crate::builder::BuildError;
use crate::keyed::KeyedLimiter;
use crate::quota::Quota;
use crate::tower::body::GateBody;
use crate::tower::builder::GateBuilder;
use crate::tower::future::{GateFuture, Held};
use crate::tower::gate::{Shared, Verdict};
use crate::tower::head::Head;
use crate::tower::hold::wait;
use crate::tower::rule::Rule;

/// Puts a [`Gate`] in front of a service: rate limits by client, user, route or whatever a request tells.
///
/// All services that it is put in front of, and all clones of them, share its limits. It has no type parameters,
/// so that it is easy to name, in a field or a function's result.
///
/// ```
/// use tollgate::Quota;
/// use tollgate::tower::GateLayer;
///
/// struct Server {
///     gate: GateLayer,
/// }
/// // Ten a second for each client, by the address of its peer (and the /64 of an IPv6 address).
/// let server = Server { gate: GateLayer::new(Quota::per_second(10))? };
/// # Ok::<(), tollgate::BuildError>(())
/// ```
///
/// Under axum the address is known if the service is made by `into_make_service_with_connect_info`, and the
/// feature `axum` is on; the guide says more: [HTTP](crate::guide::http).
#[derive(Clone)]
pub struct GateLayer {
    shared: Arc<Shared>,
}

impl GateLayer {
    /// One rule, named `default`: this quota for each client, by the network of its peer.
    ///
    /// # Errors
    ///
    /// [`BuildError::Quota`] if the quota cannot be counted.
    ///
    /// ```
    /// # use tollgate::Quota;
    /// # use tollgate::tower::GateLayer;
    /// let gate = GateLayer::new(Quota::per_second(10).burst(20))?;
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(quota: Quota) -> Result<GateLayer, BuildError> {
        let rule = Rule::standard(KeyedLimiter::new(quota)?);
        Ok(GateLayer::of(GateBuilder::new().rule(rule).share()))
    }

    /// Starts to build one with rules of your own.
    ///
    /// ```
    /// # use tollgate::tower::{GateLayer, Rule};
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let second = Rule::new("second", KeyedLimiter::new(Quota::per_second(10))?)?;
    /// let day = Rule::new("day", KeyedLimiter::new(Quota::per_day(10_000))?)?;
    /// let gate = GateLayer::builder().rule(second).rule(day).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> GateBuilder {
        GateBuilder::new()
    }

    pub(super) fn of(shared: Shared) -> GateLayer {
        GateLayer { shared: Arc::new(shared) }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { inner, shared: Arc::clone(&self.shared) }
    }
}

/// A service behind rate limits: see [`GateLayer`].
///
/// A request that is refused never reaches the service, and is answered at once, with a response: errors are
/// the service's own. It is decided when it comes, not when the service says that it is ready.
///
/// ```
/// use tollgate::tower::{Gate, GateLayer};
///
/// /// The type of a service behind it.
/// struct App<S> {
///     service: Gate<S>,
/// }
/// ```
#[derive(Clone)]
pub struct Gate<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S, B, R> Service<Request<B>> for Gate<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    R: Body<Data = Bytes>,
{
    type Response = Response<GateBody<R>>;
    type Error = S::Error;
    type Future = GateFuture<S, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> GateFuture<S, B> {
        match self.shared.decide(&Head::from(&request)) {
            Verdict::Pass(ending) => GateFuture::serving(self.inner.call(request), ending),
            Verdict::Answer(answer) => GateFuture::answered(answer),
            Verdict::Hold(held) => {
                let (counts, slot) = *held;
                // The one that was asked whether it is ready is the one that is called.
                let next = self.inner.clone();
                let service = mem::replace(&mut self.inner, next);
                let shared = Arc::clone(&self.shared);
                let wait = Box::pin(wait(Arc::clone(&shared), counts, slot));
                GateFuture::held(Held { wait, service, request, shared })
            }
        }
    }
}

impl fmt::Debug for GateLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateLayer").field("rules", &self.shared.rules).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for Gate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("inner", &self.inner).finish_non_exhaustive()
    }
}
