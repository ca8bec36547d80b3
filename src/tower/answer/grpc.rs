//! Refusals for gRPC: a status in the head of an answer without a body.
//!
//! A plain 429 would be taken for `UNAVAILABLE`, and tried again at once.

use core::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use crate::tower::head::Head;

/// Codes of gRPC.
pub(in crate::tower) const RESOURCE_EXHAUSTED: u8 = 8;
pub(in crate::tower) const INTERNAL: u8 = 13;

const MESSAGE: &str = "rate limit exceeded";
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// Whether a request is one of gRPC, by its content type.
pub(in crate::tower) fn is_grpc(head: &Head<'_>) -> bool {
    let content_type = head.headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    let (is_grpc, rest) = match content_type.split_at_checked("application/grpc".len()) {
        Some((start, rest)) => (start.eq_ignore_ascii_case(b"application/grpc"), rest),
        None => (false, &[][..]),
    };
    let of_web = rest.split_at_checked(4).filter(|(web, _)| web.eq_ignore_ascii_case(b"-web"));
    let rest = of_web.map_or(rest, |(_, rest)| rest.strip_prefix(b"-text").unwrap_or(rest));
    is_grpc && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// An answer of this code and no body; `message` is percent-encoded.
pub(in crate::tower) fn answer(
    head: &Head<'_>,
    code: u8,
    message: &'static str,
) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::new());
    let headers = answer.headers_mut();
    let content_type = head.headers.get(CONTENT_TYPE).cloned();
    // A client of gRPC-Web takes no other.
    let content_type =
        content_type.filter(|value| value.as_bytes().len() > 16 && value.as_bytes()[16] == b'-');
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/grpc"));
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert("grpc-status", HeaderValue::from(u16::from(code)));
    headers.insert("grpc-message", HeaderValue::from_static(message));
    answer
}

/// A refusal: `RESOURCE_EXHAUSTED`, and when to come back, if ever.
pub(in crate::tower) fn refuse(head: &Head<'_>, wait: Option<Duration>) -> Response<Bytes> {
    let mut answer = answer(head, RESOURCE_EXHAUSTED, "rate%20limit%20exceeded");
    let headers = answer.headers_mut();
    let Some(wait) = wait else {
        // A negative pushback: do not try again.
        headers.insert("grpc-retry-pushback-ms", HeaderValue::from_static("-1"));
        return answer;
    };
    // Whoever is refused is to wait, be it for no more than a moment.
    let wait = wait.max(Duration::from_nanos(1));
    let pushback = wait.as_nanos().div_ceil(1_000_000).clamp(1, i32::MAX as u128);
    headers.insert("grpc-retry-pushback-ms", HeaderValue::from(pushback as u64));
    let details = STANDARD_NO_PAD.encode(details(wait));
    if let Ok(details) = HeaderValue::try_from(details) {
        headers.insert("grpc-status-details-bin", details);
    }
    answer
}

/// `google.rpc.Status { code: 8, message, details: [RetryInfo { retry_delay: wait }] }` in the wire format of
/// protocol buffers.
fn details(wait: Duration) -> Vec<u8> {
    let mut delay = Vec::new();
    put_number(&mut delay, 1, wait.as_secs());
    put_number(&mut delay, 2, wait.subsec_nanos().into());
    let mut retry_info = Vec::new();
    put_bytes(&mut retry_info, 1, &delay);
    let mut any = Vec::new();
    put_bytes(&mut any, 1, RETRY_INFO.as_bytes());
    put_bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    put_number(&mut status, 1, RESOURCE_EXHAUSTED.into());
    put_bytes(&mut status, 2, MESSAGE.as_bytes());
    put_bytes(&mut status, 3, &any);
    status
}

/// A field of a number, which is left out if it is 0.
fn put_number(message: &mut Vec<u8>, field: u8, number: u64) {
    if number > 0 {
        message.push(field << 3);
        put_varint(message, number);
    }
}

/// A field of bytes: a text or a message.
fn put_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    put_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn put_varint(message: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        message.push(number as u8 | 0x80);
        number >>= 7;
    }
    message.push(number as u8);
}
