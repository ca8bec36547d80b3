//! The head of a request, as rules look at it.

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri};

/// The head of a request, as rules look at it. Borrowed: nothing of the request is moved or copied.
///
/// ```
/// use tollgate::tower::Head;
///
/// let request = http::Request::builder().uri("/login").body(())?;
/// let head = Head::from(&request);
/// assert_eq!(head.uri.path(), "/login");
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// Where it goes.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// What servers and layers outside have put into the request.
    pub extensions: &'a Extensions,
}

impl<'a, B> From<&'a Request<B>> for Head<'a> {
    fn from(request: &'a Request<B>) -> Head<'a> {
        Head {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl<'a> From<&'a Parts> for Head<'a> {
    fn from(parts: &'a Parts) -> Head<'a> {
        let Parts { method, uri, headers, extensions, .. } = parts;
        Head { method, uri, headers, extensions }
    }
}
