//! The head of a request, as rules look at it.

use http::header::COOKIE;
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

impl<'a> Head<'a> {
    /// The value of a header, if it is there once and is text.
    ///
    /// ```
    /// use tollgate::tower::Head;
    ///
    /// let request = http::Request::builder().header("x-api-key", "abc").body(())?;
    /// assert_eq!(Head::from(&request).header("x-api-key"), Some("abc"));
    /// assert_eq!(Head::from(&request).header("authorization"), None);
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next().filter(|_| values.next().is_none());
        value?.to_str().ok()
    }

    /// The value of the first cookie of this name.
    ///
    /// ```
    /// use tollgate::tower::Head;
    ///
    /// let request = http::Request::builder().header("cookie", "theme=dark; session=abc").body(())?;
    /// assert_eq!(Head::from(&request).cookie("session"), Some("abc"));
    /// # Ok::<(), http::Error>(())
    /// ```
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&'a str> {
        let lines = self.headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split(';'));
        cookies.find_map(|cookie| {
            let (found, value) = cookie.trim_ascii().split_once('=')?;
            (found == name).then(|| value.trim_matches('"'))
        })
    }
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
