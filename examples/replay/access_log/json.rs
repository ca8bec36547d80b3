//! The JSON lines of Caddy, Traefik and nginx.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Record, Skipped, parse_time, split_request};

/// A field of a JSON line, left as written: its type differs between servers and settings.
type Field<'a> = Option<&'a RawValue>;

/// The fields by which the servers' lines are told apart and read.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Fields<'a> {
    // Caddy.
    ts: Field<'a>,
    logger: Field<'a>,
    /// An object of Caddy's, the request's first line of nginx's.
    request: Field<'a>,
    status: Field<'a>,
    // Traefik.
    #[serde(rename = "StartUTC")]
    start_utc: Field<'a>,
    time: Field<'a>,
    #[serde(rename = "ClientHost")]
    client_host: Field<'a>,
    #[serde(rename = "ClientAddr")]
    client_addr: Field<'a>,
    #[serde(rename = "RequestMethod")]
    traefik_method: Field<'a>,
    #[serde(rename = "RequestPath")]
    traefik_path: Field<'a>,
    #[serde(rename = "DownstreamStatus")]
    downstream_status: Field<'a>,
    // nginx.
    msec: Field<'a>,
    time_iso8601: Field<'a>,
    time_local: Field<'a>,
    #[serde(rename = "@timestamp")]
    at_timestamp: Field<'a>,
    timestamp: Field<'a>,
    remote_addr: Field<'a>,
    request_method: Field<'a>,
    request_uri: Field<'a>,
    uri: Field<'a>,
}

/// What Caddy tells of the request itself.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct CaddyRequest<'a> {
    client_ip: Field<'a>,
    remote_ip: Field<'a>,
    /// The address with the port, of early versions.
    remote_addr: Field<'a>,
    method: Field<'a>,
    uri: Field<'a>,
}

/// Reads a line that begins like a JSON object.
pub(super) fn line(json: &str) -> Result<Record, Skipped> {
    let fields: Fields<'_> = serde_json::from_str(json)
        .map_err(|error| if error.is_data() { Skipped::Foreign } else { Skipped::Torn })?;
    let record = if fields.client_host.is_some() || fields.client_addr.is_some() {
        traefik(&fields)
    } else if fields.request.is_some_and(|request| request.get().starts_with('{')) {
        caddy(&fields)
    } else {
        nginx(&fields)
    };
    record.ok_or(Skipped::Foreign)
}

/// Reads a line of Caddy's. Its other loggers (errors, the proxy) tell of the same requests again,
/// and are left out.
fn caddy(fields: &Fields<'_>) -> Option<Record> {
    if text(fields.logger).is_some_and(|logger| !logger.starts_with("http.log.access")) {
        return None;
    }
    let request: CaddyRequest<'_> = serde_json::from_str(fields.request?.get()).ok()?;
    let client = text(request.client_ip)
        .or_else(|| text(request.remote_ip))
        .or_else(|| text(request.remote_addr).map(|address| without_port(&address)))?;
    Some(Record {
        line: 0,
        time: first_time([fields.ts, fields.time])?,
        client,
        method: text(request.method).unwrap_or_default(),
        path: text(request.uri).unwrap_or_default(),
        status: number(fields.status),
    })
}

/// Reads a line of Traefik's.
fn traefik(fields: &Fields<'_>) -> Option<Record> {
    let client = text(fields.client_host)
        .or_else(|| text(fields.client_addr).map(|address| without_port(&address)))?;
    Some(Record {
        line: 0,
        time: first_time([fields.start_utc, fields.time])?,
        client,
        method: text(fields.traefik_method).unwrap_or_default(),
        path: text(fields.traefik_path).unwrap_or_default(),
        status: number(fields.downstream_status),
    })
}

/// Reads a line of nginx's, whose times are taken in the order of their precision.
fn nginx(fields: &Fields<'_>) -> Option<Record> {
    let times = [
        fields.msec,
        fields.time_iso8601,
        fields.time_local,
        fields.at_timestamp,
        fields.timestamp,
    ];
    let (method, path) = split_request(&text(fields.request).unwrap_or_default());
    Some(Record {
        line: 0,
        time: first_time(times).or_else(|| first_time([fields.time]))?,
        client: text(fields.remote_addr)?,
        method: text(fields.request_method).unwrap_or(method),
        path: text(fields.request_uri).or_else(|| text(fields.uri)).unwrap_or(path),
        status: number(fields.status),
    })
}

/// What a field says: a string's content, or a number's digits just as they are written.
fn text(field: Field<'_>) -> Option<String> {
    let raw = field?.get();
    match raw.as_bytes().first()? {
        b'"' => serde_json::from_str(raw).ok(),
        b'-' | b'0'..=b'9' => Some(raw.to_owned()),
        _ => None,
    }
}

/// A status, which nginx's settings often put in quotes.
fn number(field: Field<'_>) -> Option<u16> {
    text(field)?.parse().ok()
}

/// The address in `address:port` or `[address]:port`.
fn without_port(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// The first of the fields that holds a time.
fn first_time<const N: usize>(fields: [Field<'_>; N]) -> Option<i64> {
    fields.into_iter().find_map(|field| parse_time(&text(field)?))
}
