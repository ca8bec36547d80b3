//! How a gate answers: what it refuses with, and what it tells.

use core::time::Duration;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts as ResponseParts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::tower::answer::refusal::{
    lengthened, problem, retry_after, text, violated as violated_names,
};
use crate::tower::answer::{HeaderStyle, RetryAfter, Told, grpc, longest_wait, write_headers};
use crate::tower::head::Head;

/// What is told whom nothing can be told of.
const NO_KEY: &str = "The rate limit cannot tell whom to count this request for: there is no peer address. \
    Serve with into_make_service_with_connect_info::<SocketAddr>() (axum), or put a SocketAddr into the \
    request's extensions.\n";

const TEXT: &str = "text/plain; charset=utf-8";
const NO_STORE: &str = "no-store";

type Responds = dyn Fn(&Refusal<'_>, &Head<'_>) -> Response<Bytes> + Send + Sync;

/// What a gate refuses with; with the headers that all its refusals have, as copying them costs half of what
/// inserting them does.
#[derive(Clone)]
pub(super) enum Format {
    Problem(HeaderMap),
    Text(HeaderMap),
    Own(Arc<Responds>),
}

impl Format {
    pub(super) fn problem() -> Format {
        Format::Problem(headers_of("application/problem+json"))
    }

    pub(super) fn text() -> Format {
        Format::Text(headers_of(TEXT))
    }
}

impl Default for Format {
    fn default() -> Format {
        Format::problem()
    }
}

/// The headers of a refusal with such a body. The wait has its place, and each refusal its own.
fn headers_of(content_type: &'static str) -> HeaderMap {
    // With room for one more, as a map grows before it looks whether it replaces a value.
    let mut headers = HeaderMap::with_capacity(4);
    for (name, value) in
        [(CONTENT_TYPE, content_type), (CACHE_CONTROL, NO_STORE), (RETRY_AFTER, "1")]
    {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
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
            Format::Problem(headers) => like(headers, body(head, problem_of(told))),
            Format::Text(headers) => like(headers, body(head, text(told_wait))),
            Format::Own(respond) => {
                let mut answer = respond(&Refusal { told, wait }, head);
                let headers = answer.headers_mut();
                headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static(NO_STORE));
                if headers.contains_key(RETRY_AFTER) {
                    return self.with_limits(told, answer);
                }
                answer
            }
        };
        let value = told_wait.and_then(|wait| retry_after(self.retry_after, wait, SystemTime::now));
        let headers = answer.headers_mut();
        match (headers.get_mut(RETRY_AFTER), value) {
            (Some(place), Some(value)) => *place = value,
            (None, Some(value)) => drop(headers.insert(RETRY_AFTER, value)),
            (_, None) => drop(headers.remove(RETRY_AFTER)),
        }
        self.with_limits(told, answer)
    }

    fn with_limits(&self, told: &[Told], mut answer: Response<Bytes>) -> Response<Bytes> {
        let status = answer.status();
        write_headers(self.style, told, SystemTime::now, (status, answer.headers_mut()));
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
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
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

/// A refusal with a copy of these headers.
fn like(headers: &HeaderMap, body: Bytes) -> Response<Bytes> {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    *answer.headers_mut() = headers.clone();
    answer
}

/// What is asked for by HEAD has no body.
fn body(head: &Head<'_>, text: Bytes) -> Bytes {
    if head.method == Method::HEAD { Bytes::new() } else { text }
}
