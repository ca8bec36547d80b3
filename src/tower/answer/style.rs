//! The headers that tell of limits.

use core::cmp::Reverse;
use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use sfv::{
    DictSerializer, Dictionary, Integer, ItemSerializer, KeyRef, ListEntry, Parser, StringRef,
    key_ref,
};

use crate::tower::answer::{Numbers, PolicyName, Told, seconds};

/// Which headers tell of limits, besides `Retry-After`. The drafts are those of
/// draft-ietf-httpapi-ratelimit-headers, by their numbers, as they differ on the wire.
///
/// ```
/// use tollgate::tower::HeaderStyle;
///
/// assert_eq!(HeaderStyle::default(), HeaderStyle::Off);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// None.
    #[default]
    Off,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the seconds since 1970 at which all is back; of the rule
    /// with the least left.
    XEpoch,
    /// The same, with `-Reset` in seconds from now.
    XDelta,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset` in seconds from now, of the rule with the least left, and
    /// `RateLimit-Policy` of all.
    Draft06,
    /// `RateLimit: limit=, remaining=, reset=` of the rule with the least left, and `RateLimit-Policy` of all,
    /// which must have different limits.
    Draft07,
    /// `RateLimit: "name";r=;t=` and `RateLimit-Policy: "name";q=;w=` of all rules. `t` is the time until one
    /// token more is there.
    Draft10,
}

const X: [HeaderName; 3] =
    three(["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]);
const DRAFT_06: [HeaderName; 3] =
    three(["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]);
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The headers that a browser's scripts can read only if CORS exposes them.
///
/// ```
/// use tollgate::tower::EXPOSE_HEADERS;
///
/// // With tower-http: CorsLayer::new().expose_headers(EXPOSE_HEADERS), outside of the gate.
/// assert!(EXPOSE_HEADERS.contains(&http::header::RETRY_AFTER));
/// ```
pub const EXPOSE_HEADERS: [HeaderName; 9] = [
    RETRY_AFTER,
    RATE_LIMIT,
    POLICY,
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// The limit, what remains, and when all is back.
const fn three([limit, remaining, reset]: [&'static str; 3]) -> [HeaderName; 3] {
    [
        HeaderName::from_static(limit),
        HeaderName::from_static(remaining),
        HeaderName::from_static(reset),
    ]
}

/// Writes the headers of a style, beside those of a layer inside, or of the service.
pub(in crate::tower) fn write_headers(
    style: HeaderStyle,
    told: &[Told],
    now: impl FnOnce() -> SystemTime,
    (status, headers): (StatusCode, &mut HeaderMap),
) {
    if style == HeaderStyle::Off {
        return;
    }
    let shown = || told.iter().filter_map(|told| Some((&told.name, told.numbers.as_ref()?)));
    let all = || shown().map(|(_, numbers)| numbers);
    // Of several the one with the least left, and of such the one that takes longest.
    let tightest = all().min_by_key(|told| (told.remaining, Reverse(told.reset.or(MOST))));
    let Some(tightest) = tightest else { return };
    // Who is sent elsewhere and told that nothing is left may wait before going there.
    let is_redirected = status.is_redirection();
    let tells = |told: &Numbers| !(is_redirected && told.remaining == 0);
    let reset = tightest.reset.map(seconds);
    match style {
        HeaderStyle::XEpoch if tells(tightest) => {
            let at = tightest.reset.map(|reset| epoch(now(), reset));
            write_three(headers, &X, tightest, at);
        }
        HeaderStyle::XDelta if tells(tightest) => write_three(headers, &X, tightest, reset),
        HeaderStyle::Off | HeaderStyle::XEpoch | HeaderStyle::XDelta => {}
        HeaderStyle::Draft06 => {
            if tells(tightest) {
                write_three(headers, &DRAFT_06, tightest, reset);
            }
            append(headers, POLICY, joined(all().map(unnamed_policy)));
        }
        HeaderStyle::Draft07 => {
            if tells(tightest) {
                write_dictionary(headers, tightest, reset);
            }
            append(headers, POLICY, joined(all().map(unnamed_policy)));
        }
        HeaderStyle::Draft10 => {
            append(headers, POLICY, joined(shown().filter_map(named_policy)));
            let left = shown().filter(|(_, told)| tells(told)).filter_map(named);
            append(headers, RATE_LIMIT, joined(left));
        }
    }
}

/// What never comes takes longest.
const MOST: Option<Duration> = Some(Duration::MAX);

/// Three headers with a number each; unless a layer inside has told of less.
fn write_three(
    headers: &mut HeaderMap,
    names: &[HeaderName; 3],
    told: &Numbers,
    reset: Option<u64>,
) {
    let number = |name| -> Option<u64> { headers.get(name)?.to_str().ok()?.parse().ok() };
    let inner = number(&names[1]).map(|remaining| (remaining, Reverse(number(&names[2]))));
    if inner.is_some_and(|inner| inner <= (told.remaining, Reverse(reset.or(Some(u64::MAX))))) {
        return;
    }
    for (name, value) in names.iter().zip([Some(told.limit), Some(told.remaining), reset]) {
        match value {
            Some(value) => headers.insert(name, HeaderValue::from(value)),
            // What never comes back has no time.
            None => headers.remove(name),
        };
    }
}

/// The dictionary of draft 07; unless a layer inside has told of less.
fn write_dictionary(headers: &mut HeaderMap, told: &Numbers, reset: Option<u64>) {
    let inner = headers.get(RATE_LIMIT).and_then(|value| {
        let fields: Dictionary = Parser::new(value.as_bytes()).parse().ok()?;
        let Some(ListEntry::Item(item)) = fields.get(key_ref("remaining")) else { return None };
        u64::try_from(i64::from(item.bare_item.as_integer()?)).ok()
    });
    if inner.is_some_and(|inner| inner <= told.remaining) {
        return;
    }
    let mut fields = DictSerializer::new();
    let _ = fields.bare_item(key_ref("limit"), integer(told.limit));
    let _ = fields.bare_item(key_ref("remaining"), integer(told.remaining));
    // It is required: what never comes back takes as long as can be told.
    let _ = fields.bare_item(key_ref("reset"), integer(reset.unwrap_or(u64::MAX)));
    if let Some(value) = fields.finish().and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(RATE_LIMIT, value);
    }
}

/// A quota by its number.
fn unnamed_policy(told: &Numbers) -> String {
    let (limit, window) = told.policy;
    let item = ItemSerializer::new().bare_item(integer(limit));
    with(item, &[(key_ref("w"), window)])
}

/// A quota by its name.
fn named_policy((name, told): (&PolicyName, &Numbers)) -> Option<String> {
    let (limit, window) = told.policy;
    let item = ItemSerializer::new().bare_item(StringRef::from_str(name.as_str()).ok()?);
    Some(with(item, &[(key_ref("q"), Some(limit)), (key_ref("w"), window)]))
}

/// What is left, by the quota's name.
fn named((name, told): (&PolicyName, &Numbers)) -> Option<String> {
    let item = ItemSerializer::new().bare_item(StringRef::from_str(name.as_str()).ok()?);
    let next = told.next.map(seconds);
    Some(with(item, &[(key_ref("r"), Some(told.remaining)), (key_ref("t"), next)]))
}

fn with(
    mut item: sfv::ParameterSerializer<String>,
    parameters: &[(&KeyRef, Option<u64>)],
) -> String {
    for &(key, value) in parameters {
        if let Some(value) = value {
            item = item.parameter(key, integer(value));
        }
    }
    item.finish()
}

/// The integer, or the largest that a structured field can hold.
fn integer(value: u64) -> Integer {
    Integer::try_from(value).unwrap_or(Integer::MAX)
}

fn joined(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Adds a line to a list.
fn append(headers: &mut HeaderMap, name: HeaderName, list: String) {
    if let Some(value) = HeaderValue::try_from(list).ok().filter(|value| !value.is_empty()) {
        headers.append(name, value);
    }
}

/// Seconds since 1970, rounded up.
fn epoch(now: SystemTime, reset: Duration) -> u64 {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    seconds(now.saturating_add(reset))
}
