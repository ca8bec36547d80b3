//! How a gate answers: what it refuses with, and what it tells.

use core::time::Duration;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts as ResponseParts;
use http::{HeaderValue, Method, Response, StatusCode};

use crate::tower::answer::refusal::{
    lengthened, problem, retry_after, text, violated as violated_names,
};
use crate::tower::answer::{HeaderStyle, RetryAfter, Told, grpc, longest_wait, write_headers};
use crate::tower::head::Head;

/// What is told whom nothing can be told of.
const NO_KEY: &str = "The rate limit cannot tell whom to count this request for: there is no peer address. \
    Serve with into_make_service_with_connect_info::<SocketAddr>() (axum), or put a SocketAddr into the \
    request's extensions.\n";

type Responds = dyn Fn(&Refusal<'_>, &Head<'_>) -> Response<Bytes> + Send + Sync;

/// What a gate refuses with.
#[derive(Clone, Default)]
pub(super) enum Format {
    #[default]
    Problem,
    Text,
    Own(Arc<Responds>),
}

/// How a gate answers.
#[derive(Clone, Default)]
pub(super) struct Replies {
    pub(super) style: HeaderStyle,
    pub(super) tells_admitted: bool,
    pub(super) retry_after: RetryAfter,
    /// Per cent.
    pub(super) jitter: u8,
    pub(super) format: Format,
}

/// A refusal, for those who answer it by themselves: see
/// [`refuse_with`](crate::tower::GateBuilder::refuse_with).
///
/// ```
/// use tollgate::tower::Refusal;
///
/// fn describe(refusal: &Refusal<'_>) -> String {
///     let names: Vec<&str> = refusal.violated().collect();
///     format!("{}: wait {:?}", names.join(", "), refusal.retry_after())
/// }
/// ```
#[derive(Debug)]
pub struct Refusal<'a> {
    told: &'a [Told],
    wait: Option<Duration>,
}

impl Refusal<'_> {
    /// How long until the request is admitted, nobody else having come; `None` for never.
    ///
    /// ```
    /// # use tollgate::tower::Refusal;
    /// fn can_help(refusal: &Refusal<'_>) -> bool {
    ///     refusal.retry_after().is_some()
    /// }
    /// ```
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.wait
    }

    /// The names of the rules that refuse.
    ///
    /// ```
    /// # use tollgate::tower::Refusal;
    /// fn is_daily(refusal: &Refusal<'_>) -> bool {
    ///     refusal.violated().any(|name| name == "day")
    /// }
    /// ```
    pub fn violated(&self) -> impl Iterator<Item = &str> {
        violated_names(self.told)
    }
}

impl Replies {
    /// Whether admitted requests are told anything.
    pub(super) fn tells_admitted(&self) -> bool {
        self.tells_admitted && self.style != HeaderStyle::Off
    }

    /// Tells an answer of the service of the limits.
    pub(super) fn tell(&self, told: &[Told], answer: &mut ResponseParts) {
        if !told.is_empty() {
            let answer = (answer.status, &mut answer.headers);
            write_headers(self.style, told, SystemTime::now, answer);
        }
    }

    /// A refusal.
    pub(super) fn refuse(&self, head: &Head<'_>, told: &[Told]) -> Response<Bytes> {
        let wait = longest_wait(told);
        let told_wait = match self.jitter {
            0 => wait,
            share => wait.map(|wait| lengthened(wait, share, RandomState::new().hash_one(0_u8))),
        };
        if grpc::is_grpc(head) {
            return grpc::refuse(head, told_wait);
        }
        let mut answer = match &self.format {
            Format::Problem => plain(head, "application/problem+json", problem_of(told)),
            Format::Text => plain(head, "text/plain; charset=utf-8", text(told_wait)),
            Format::Own(respond) => respond(&Refusal { told, wait }, head),
        };
        let status = answer.status();
        let headers = answer.headers_mut();
        let is_own = matches!(self.format, Format::Own(_));
        if let Some(wait) = told_wait.filter(|_| !(is_own && headers.contains_key(RETRY_AFTER)))
            && let Some(value) = retry_after(self.retry_after, wait, SystemTime::now)
        {
            headers.insert(RETRY_AFTER, value);
        }
        if !(is_own && headers.contains_key(CACHE_CONTROL)) {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        write_headers(self.style, told, SystemTime::now, (status, headers));
        answer
    }
}

/// The answer to a request for which nobody can be told.
pub(super) fn no_key(head: &Head<'_>) -> Response<Bytes> {
    if grpc::is_grpc(head) {
        return grpc::answer(head, grpc::INTERNAL, "rate%20limit:%20no%20peer%20address");
    }
    let mut answer = Response::new(body(head, Bytes::from_static(NO_KEY.as_bytes())));
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    answer
}

/// Problem details: written anew only where several rules refuse.
fn problem_of(told: &[Told]) -> Bytes {
    let mut violated = told.iter().filter(|told| told.is_violated);
    match (violated.next(), violated.next()) {
        (Some(one), None) => one.name.problem(),
        _ => problem(violated_names(told)),
    }
}

fn plain(head: &Head<'_>, content_type: &'static str, text: Bytes) -> Response<Bytes> {
    let mut answer = Response::new(body(head, text));
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    // What every refusal has, at once.
    answer.headers_mut().reserve(3);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// What is asked for by HEAD has no body.
fn body(head: &Head<'_>, text: Bytes) -> Bytes {
    if head.method == Method::HEAD { Bytes::new() } else { text }
}
