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

use crate::tower::body::GateBody;
use crate::tower::gate::{Asked, Ending, Shared};
use crate::tower::head::Head;

/// What a request that waits comes to, and the request itself with the service that was ready for it.
pub(super) struct Held<S, B> {
    pub(super) wait: Pin<Box<dyn Future<Output = Asked> + Send>>,
    pub(super) service: S,
    pub(super) request: Request<B>,
    pub(super) shared: Arc<Shared>,
}

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
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F> {
        Serving { #[pin] future: F, ending: Option<Box<Ending>> },
        Answered { answer: Option<Response<Bytes>> },
        // Apart, as most do not wait.
        Held { held: Option<Box<Held<S, B>>> },
    }
}

impl<S: Service<Request<B>>, B> GateFuture<S, B> {
    pub(super) fn serving(future: S::Future, ending: Option<Box<Ending>>) -> Self {
        GateFuture { state: State::Serving { future, ending } }
    }

    pub(super) fn answered(answer: Response<Bytes>) -> Self {
        GateFuture { state: State::Answered { answer: Some(answer) } }
    }

    pub(super) fn held(held: Held<S, B>) -> Self {
        GateFuture { state: State::Held { held: Some(Box::new(held)) } }
    }
}

impl<S, B, R> Future for GateFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<GateBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Serving { future, ending } => {
                    let answer = ready!(future.poll(context))?.map(GateBody::of_service);
                    return Poll::Ready(Ok(match ending.take() {
                        None => answer,
                        Some(ending) => end(*ending, answer),
                    }));
                }
                StateProjection::Answered { answer } => {
                    // Polled again after that, which no future has to answer, it is an empty one.
                    let answer = answer.take().unwrap_or_default();
                    return Poll::Ready(Ok(answer.map(GateBody::refusal)));
                }
                StateProjection::Held { held } => {
                    let next = ready!(poll_held(held, context));
                    state.set(next);
                }
            }
        }
    }
}

// Both are apart, so that the code of the most common way lies close together.

#[inline(never)]
fn end<R>(ending: Ending, answer: Response<R>) -> Response<R> {
    let (mut parts, body) = answer.into_parts();
    ending.end(&mut parts);
    Response::from_parts(parts, body)
}

#[inline(never)]
fn poll_held<S: Service<Request<B>>, B>(
    held: &mut Option<Box<Held<S, B>>>,
    context: &mut Context<'_>,
) -> Poll<State<S, B, S::Future>> {
    let waited = match held {
        Some(held) => ready!(held.wait.as_mut().poll(context)),
        None => Ok(None),
    };
    let next = held.take().map(|held| go_on(*held, waited));
    Poll::Ready(next.unwrap_or(State::Answered { answer: None }))
}

/// What becomes of a request that has waited.
fn go_on<S: Service<Request<B>>, B>(held: Held<S, B>, waited: Asked) -> State<S, B, S::Future> {
    let Held { mut service, request, shared, .. } = held;
    match waited {
        Ok(ending) => State::Serving { future: service.call(request), ending },
        Err(told) => {
            let answer = shared.replies.refuse(&Head::from(&request), &told);
            State::Answered { answer: Some(answer) }
        }
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for GateFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateFuture").finish_non_exhaustive()
    }
}
