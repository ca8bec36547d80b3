//! Reads the access logs of web servers, one request after another.
//!
//! Understood are the NCSA common and combined formats (with or without a virtual host in front),
//! and the JSON lines of Caddy, Traefik and nginx (with nginx's usual variable names as keys). The
//! format is found out line by line, so a file may mix them; gzip is recognised by its first bytes.
//!
//! No line is fatal. What is not a request is counted: blank lines, torn ones (cut off, overlong or
//! garbled), and foreign ones (whole, but of another kind, such as a server's error log).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::net::IpAddr;
use std::ops::AddAssign;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;

mod json;
#[cfg(test)]
mod tests;

/// Longest line that is read, in bytes; it bounds the memory that a broken file can take.
const MAX_LINE: usize = 1 << 20;

/// Longest client that is believed, in bytes: a host name has at most 253.
const MAX_CLIENT: usize = 255;

/// The first bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One request, as the log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Number of its line in the file, from 1.
    pub line: u64,
    /// When it was made, in nanoseconds since the Unix epoch.
    pub time: i64,
    /// Who made it: the address or host name, without a port.
    pub client: String,
    /// Its method, or nothing where the server could not read the request.
    pub method: String,
    /// Its path with the query, or nothing where the server could not read the request.
    pub path: String,
    /// The status that the server answered with, where the log has it.
    pub status: Option<u16>,
}

/// How many lines were read, and how many of them were no request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines of any kind.
    pub lines: u64,
    /// Lines with nothing on them.
    pub blank: u64,
    /// Lines that begin like a request, but are cut off, overlong or garbled.
    pub torn: u64,
    /// Lines that are something else.
    pub foreign: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.lines += other.lines;
        self.blank += other.blank;
        self.torn += other.torn;
        self.foreign += other.foreign;
    }
}

/// Why a line is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skipped {
    /// Nothing on it.
    Blank,
    /// It begins like a request, but does not end like one.
    Torn,
    /// It is something else.
    Foreign,
}

/// What reading a line came to.
enum Line {
    /// There are no more.
    End,
    /// It is in the buffer.
    Fits,
    /// It was longer than [`MAX_LINE`]; the rest of it is skipped.
    TooLong,
}

/// A log being read: an iterator over its requests.
///
/// An error of the input (not of a line) is handed out once and ends the iteration: what came
/// before it is good, as with a gzip file that was cut off.
pub struct AccessLog {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    counts: Counts,
    failed: bool,
}

impl AccessLog {
    /// Opens the log at a path, where `-` is the standard input.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") { Self::new(io::stdin()) } else { Self::new(File::open(path)?) }
    }

    /// Reads a log from any input, unpacking it if it begins like gzip.
    pub fn new(mut input: impl Read + 'static) -> io::Result<Self> {
        let mut head = Vec::new();
        input.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut head)?;
        let packed = head == GZIP_MAGIC;
        let input = BufReader::new(Cursor::new(head).chain(input));
        let input: Box<dyn BufRead> = if packed {
            Box::new(BufReader::new(MultiGzDecoder::new(input)))
        } else {
            Box::new(input)
        };
        Ok(Self { input, line: Vec::new(), counts: Counts::default(), failed: false })
    }

    /// The counts of the lines read so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Reads the next line into the buffer, or as much of it as is allowed.
    fn read_line(&mut self) -> io::Result<Line> {
        self.line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line);
        if self.line.is_empty() {
            return read.map(|_| Line::End);
        }
        self.counts.lines += 1;
        let overlong = self.line.len() > MAX_LINE && self.line.last() != Some(&b'\n');
        let read = match read {
            Ok(_) if overlong => self.input.skip_until(b'\n').map(|_| Line::TooLong),
            read => read.map(|_| Line::Fits),
        };
        self.counts.torn += u64::from(read.is_err());
        read
    }
}

impl Iterator for AccessLog {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let parsed = match self.read_line() {
                Ok(Line::End) => return None,
                Ok(Line::Fits) => parse(&self.line),
                Ok(Line::TooLong) => Err(Skipped::Torn),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            };
            match parsed {
                Ok(record) => {
                    return Some(Ok(Record { line: self.counts.lines, ..record }));
                }
                Err(Skipped::Blank) => self.counts.blank += 1,
                Err(Skipped::Torn) => self.counts.torn += 1,
                Err(Skipped::Foreign) => self.counts.foreign += 1,
            }
        }
        None
    }
}

/// Reads one line of whichever format. Bytes that are not UTF-8 become replacement characters, and
/// NUL bytes in front, which a crash may leave where lines were never written, are passed over.
fn parse(line: &[u8]) -> Result<Record, Skipped> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_start_matches(['\u{feff}', '\0']).trim();
    if text.is_empty() {
        return Err(Skipped::Blank);
    }
    let record = if text.starts_with('{') { json::line(text)? } else { common_line(text)? };
    let client = &record.client;
    if client.is_empty() || client.len() > MAX_CLIENT || client.contains(char::is_control) {
        return Err(Skipped::Torn);
    }
    Ok(record)
}

/// Reads a line that is not JSON: of the common or combined format, or else skipped.
fn common_line(line: &str) -> Result<Record, Skipped> {
    common_fields(line).ok_or_else(|| {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let address = first.parse::<IpAddr>().is_ok();
        let half_address = rest.is_empty()
            && first.contains(['.', ':'])
            && first.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:".contains(&byte));
        let nameless = rest.starts_with("- ");
        if address || half_address || nameless { Skipped::Torn } else { Skipped::Foreign }
    })
}

/// Takes apart `client ident user [time] "request" status bytes`, and perhaps more quoted fields.
fn common_fields(line: &str) -> Option<Record> {
    // A user may be called anything, but a quote in the name is escaped, so that the first `] "`
    // always belongs to the time.
    let (head, rest) = line.split_once("] \"")?;
    let (who, when) = head.rsplit_once(" [")?;
    let (request, rest) = split_quoted(rest)?;

    let mut words = rest.trim_start().splitn(3, ' ');
    let status = match words.next()? {
        "-" => None,
        digits => Some(digits.parse().ok()?),
    };
    let bytes = words.next()?;
    if bytes != "-" && bytes.parse::<u64>().is_err() {
        return None;
    }
    let mut tail = words.next().unwrap_or_default();
    while let Some((_, quoted)) = tail.split_once('"') {
        (_, tail) = split_quoted(quoted)?;
    }

    let (first, others) = who.split_once(' ').unwrap_or((who, ""));
    let second = others.split(' ').next().unwrap_or_default();
    let after_host = first.parse::<IpAddr>().is_err() && second.parse::<IpAddr>().is_ok();
    let client = if after_host { second } else { first };
    let (method, path) = split_request(request);
    Some(Record {
        line: 0,
        time: parse_time(when)?,
        client: client.to_owned(),
        method,
        path,
        status,
    })
}

/// Splits after the quote that ends a quoted field, given the text after the one that begins it.
fn split_quoted(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

/// The method and the path of a request's first line; both empty if it has no such shape.
fn split_request(request: &str) -> (String, String) {
    match request.split_once(' ') {
        Some((method, rest)) => {
            let path = rest.split(' ').next().unwrap_or_default();
            (method.to_owned(), path.to_owned())
        }
        None => (String::new(), String::new()),
    }
}

/// Reads a time in any of the ways that the formats write it, into nanoseconds since the epoch.
fn parse_time(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return parse_decimal(text);
    }
    let time = if text.contains('/') {
        Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", text).ok()?
    } else {
        text.parse().ok()?
    };
    time.as_nanosecond().try_into().ok()
}

/// Reads a decimal time without a detour through a float, which could not hold its last digits.
///
/// It is in seconds, unless it has so many digits before the point that only milliseconds,
/// microseconds or nanoseconds make sense of it.
fn parse_decimal(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let places = match whole.len() {
        0 => return None,
        1..=11 => 9,
        12..=14 => 6,
        15..=17 => 3,
        _ => 0,
    };
    let kept = &fraction[..fraction.len().min(places)];
    format!("{whole}{kept:0<places$}").parse().ok()
}
