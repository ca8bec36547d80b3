//! The future of a request through a gate.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::tower::answer::Told;
use crate::tower::body::GateBody;
use crate::tower::gate::{Admission, Shared};

/// What a request that waits comes to.
pub(super) type Held = Pin<Box<dyn Future<Output = Result<Admission, Vec<Told>>> + Send>>;

pin_project! {
    /// The answer of a [`Gate`](crate::tower::Gate) to come. Dropped before it is there, the request's charges
    /// are settled as those of one without an answer, and it leaves the line if it waits.
    ///
    /// ```
    /// use tollgate::tower::GateFuture;
    ///
    /// // It can be named, and sent between threads if the service's own future can be.
    /// fn is_named<S: tower_service::Service<http::Request<()>>>(_: &GateFuture<S, ()>) {}
    /// ```
    pub struct GateFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
        shared: Arc<Shared>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F> {
        Serving { #[pin] future: F, admission: Option<Admission> },
        Answered { answer: Option<Response<Bytes>> },
        Held { held: Held, request: Option<(S, Request<B>)> },
    }
}

impl<S: Service<Request<B>>, B> GateFuture<S, B> {
    pub(super) fn serving(future: S::Future, admission: Admission, shared: Arc<Shared>) -> Self {
        let state = State::Serving { future, admission: Some(admission) };
        GateFuture { state, shared }
    }

    pub(super) fn answered(answer: Response<Bytes>, shared: Arc<Shared>) -> Self {
        GateFuture { state: State::Answered { answer: Some(answer) }, shared }
    }

    pub(super) fn held(held: Held, service: S, request: Request<B>, shared: Arc<Shared>) -> Self {
        GateFuture { state: State::Held { held, request: Some((service, request)) }, shared }
    }
}

impl<S, B, R> Future for GateFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<GateBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProjection::Serving { future, admission } => {
                    let answer = ready!(future.poll(context))?;
                    let (mut parts, body) = answer.into_parts();
                    if let Some(admission) = admission.take() {
                        admission.end(this.shared, &mut parts);
                    }
                    let answer = Response::from_parts(parts, GateBody::of_service(body));
                    return Poll::Ready(Ok(answer));
                }
                StateProjection::Answered { answer } => {
                    let answer = answer.take().unwrap_or_default();
                    return Poll::Ready(Ok(answer.map(GateBody::refusal)));
                }
                StateProjection::Held { held, request } => {
                    let waited = ready!(held.as_mut().poll(context));
                    match (waited, request.take()) {
                        (Ok(admission), Some((mut service, request))) => State::Serving {
                            future: service.call(request),
                            admission: Some(admission),
                        },
                        (Err(told), Some((_, request))) => {
                            let (parts, _) = request.into_parts();
                            let answer = Some(this.shared.replies.refuse(&parts, &told));
                            State::Answered { answer }
                        }
                        // Polled after it was done, which no future has to answer.
                        (_, None) => State::Answered { answer: None },
                    }
                }
            };
            this.state.set(next);
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for GateFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateFuture").finish_non_exhaustive()
    }
}
