//! The body of an answer: the service's own, or that of a refusal.

use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of an answer through a gate: the service's own, or that of a refusal.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use tollgate::tower::GateBody;
    ///
    /// fn shown(body: &GateBody<String>) -> bool {
    ///     http_body::Body::is_end_stream(body)
    /// }
    /// assert!(shown(&GateBody::refusal(Bytes::new())));
    /// ```
    #[derive(Debug)]
    pub struct GateBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Service { #[pin] body: B },
        Refusal { body: Option<Bytes> },
    }
}

impl<B> GateBody<B> {
    pub(super) fn of_service(body: B) -> GateBody<B> {
        GateBody { kind: Kind::Service { body } }
    }

    /// A body of these bytes.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use http_body::Body;
    /// # use tollgate::tower::GateBody;
    /// let body = GateBody::<String>::refusal(Bytes::from("too many"));
    /// assert_eq!(body.size_hint().exact(), Some(8));
    /// ```
    #[must_use]
    pub fn refusal(body: Bytes) -> GateBody<B> {
        GateBody { kind: Kind::Refusal { body: Some(body).filter(|body| !body.is_empty()) } }
    }
}

impl<B: Body<Data = Bytes>> Body for GateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Service { body } => body.poll_frame(context),
            KindProjection::Refusal { body } => {
                Poll::Ready(body.take().map(|body| Ok(Frame::data(body))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Service { body } => body.is_end_stream(),
            Kind::Refusal { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Service { body } => body.size_hint(),
            Kind::Refusal { body } => {
                SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64))
            }
        }
    }
}

/// An empty body.
impl<B> Default for GateBody<B> {
    fn default() -> GateBody<B> {
        GateBody::refusal(Bytes::new())
    }
}
