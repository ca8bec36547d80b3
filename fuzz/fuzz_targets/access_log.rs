//! The replay example's log parsing on any bytes: it does not panic, every line is accounted for,
//! what it reads lies within its bounds, and a record that is written down in any of the formats
//! reads the same again.
#![no_main]

use std::io::Cursor;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use replay::access_log::{AccessLog, Counts, Record};
use serde_json::{Value, json};

#[path = "../../examples/replay"]
mod replay {
    #[allow(dead_code, reason = "the example also opens files")]
    pub mod access_log;
}

/// Longest client that is believed.
const CLIENT_MAX: usize = 255;

/// Records of an input that are written down again.
const WRITTEN: usize = 8;

/// Longest field that is written down again: well below the longest line that is read.
const FIELD_MAX: usize = 1 << 16;

const SECOND: i64 = 1_000_000_000;

/// Everything in a log, and whether it came to its end.
fn read(log: &[u8]) -> (Vec<Record>, Counts, bool) {
    let mut log = AccessLog::new(Cursor::new(log.to_vec())).expect("memory is readable");
    let (mut records, mut is_whole) = (Vec::new(), true);
    for record in &mut log {
        assert!(is_whole, "an error of the input is the last that is said");
        match record {
            Ok(record) => records.push(record),
            Err(_) => is_whole = false,
        }
    }
    let counts = log.counts();
    (records, counts, is_whole)
}

/// The log's lines are its requests and those that are counted as none.
fn account(records: &[Record], counts: Counts) {
    let Counts { lines, blank, torn, foreign } = counts;
    assert_eq!(records.len() as u64 + blank + torn + foreign, lines);
    assert!(records.is_sorted_by(|one, next| one.line < next.line));
    for Record { line, client, .. } in records {
        assert!((1..=lines).contains(line));
        assert!((1..=CLIENT_MAX).contains(&client.len()));
        assert!(!client.contains(char::is_control));
    }
}

/// A line means the same wherever it stands.
fn lines_stand_alone(log: &[u8], records: &[Record]) {
    let mut left = records.iter();
    for (index, line) in log.split_inclusive(|&byte| byte == b'\n').enumerate() {
        // Alone it would be taken for the head of a packed log.
        if line.starts_with(&[0x1f, 0x8b]) {
            return;
        }
        let (alone, counts, _) = read(line);
        assert_eq!(counts.lines, 1);
        for record in alone {
            let expected = left.next().expect("a request that the whole log does not have");
            assert_eq!(*expected, Record { line: index as u64 + 1, ..record });
        }
    }
    assert_eq!(left.next(), None);
}

/// Whether a field can stand between quotes as it is, and next to other fields.
fn is_plain(field: &str) -> bool {
    let mut escaped = false;
    let ends_well = field.chars().all(|character| {
        let is_bare_quote = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        !is_bare_quote && !character.is_whitespace() && !character.is_control()
    });
    ends_well && !escaped
}

/// The record in the combined format, which keeps only whole seconds; if it can be written so.
fn combined(record: &Record) -> Option<(Record, String)> {
    let Record { client, method, path, status, .. } = record;
    let starts_plainly = !client.starts_with(['{', '\u{feff}']);
    let can_be_written = [client, method, path].into_iter().all(|field| is_plain(field));
    if !starts_plainly || !can_be_written {
        return None;
    }
    let seconds = record.time.div_euclid(SECOND);
    let time = Timestamp::from_second(seconds).expect("within the years that i64 has");
    let time = time.strftime("%d/%b/%Y:%H:%M:%S %z");
    let request = format!("{method} {path} HTTP/1.1");
    let status = status.map_or("-".to_owned(), |status| status.to_string());
    let line = format!("{client} - - [{time}] \"{request}\" {status} 5 \"-\" \"agent\"");
    Some((Record { time: seconds.checked_mul(SECOND)?, ..record.clone() }, line))
}

/// The record as a JSON line of each server.
fn json_lines(record: &Record) -> [Value; 3] {
    let Record { time, client, method, path, status, .. } = record;
    let stamp = Timestamp::from_nanosecond(i128::from(*time)).expect("within jiff's years");
    let stamp = stamp.to_string();
    let seconds = match time {
        0.. => format!("{}.{:09}", time / SECOND, time % SECOND),
        _ => stamp.clone(),
    };
    [
        json!({
            "ts": seconds, "logger": "http.log.access", "status": status,
            "request": { "client_ip": client, "method": method, "uri": path },
        }),
        json!({
            "StartUTC": stamp, "ClientHost": client, "RequestMethod": method,
            "RequestPath": path, "DownstreamStatus": status,
        }),
        json!({
            "msec": seconds, "remote_addr": client, "request_method": method,
            "request_uri": path, "status": status,
        }),
    ]
}

/// What is written down reads the same.
fn read_again(record: &Record) {
    let json = json_lines(record).map(|line| (record.clone(), line.to_string()));
    for (expected, line) in json.into_iter().chain(combined(record)) {
        let (records, counts, _) = read(line.as_bytes());
        assert_eq!(records, [Record { line: 1, ..expected }], "{line}");
        assert_eq!(counts, Counts { lines: 1, ..Counts::default() });
    }
}

fuzz_target!(|log: &[u8]| {
    let (records, counts, is_whole) = read(log);
    account(&records, counts);
    if !log.starts_with(&[0x1f, 0x8b]) {
        assert!(is_whole, "memory is readable");
        let lines = log.split_inclusive(|&byte| byte == b'\n').count();
        assert_eq!(counts.lines, lines as u64);
        lines_stand_alone(log, &records);
    }
    let is_short = |record: &&Record| record.method.len().max(record.path.len()) <= FIELD_MAX;
    records.iter().filter(is_short).take(WRITTEN).for_each(read_again);
});
