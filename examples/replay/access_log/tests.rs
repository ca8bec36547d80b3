//! The odd lines that logs hold.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

/// A line of the combined format.
const COMBINED: &str =
    r#"192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET /a?b=1 HTTP/1.1" 200 5 "-" "agent""#;

/// Its time, in nanoseconds.
const COMBINED_TIME: i64 = 1_431_857_103_000_000_000;

/// Everything in a log: its requests, and the counts after the last line.
fn read(log: impl AsRef<[u8]>) -> (Vec<Record>, Counts) {
    let mut log = AccessLog::new(Cursor::new(log.as_ref().to_vec())).expect("memory is readable");
    let records = log.by_ref().map(|record| record.expect("memory is readable")).collect();
    (records, log.counts())
}

/// The one request of a log with a single line.
#[track_caller]
fn only(line: &str) -> Record {
    let (mut records, counts) = read(line);
    assert_eq!((records.len(), counts.lines), (1, 1), "{counts:?}");
    records.remove(0)
}

/// The counts (blank, torn, foreign) of a log without any request.
#[track_caller]
fn skipped(log: impl AsRef<[u8]>) -> (u64, u64, u64) {
    let (records, counts) = read(log);
    assert_eq!(records, []);
    (counts.blank, counts.torn, counts.foreign)
}

#[test]
fn combined_and_common() {
    let record = only(COMBINED);
    assert_eq!(record.time, COMBINED_TIME);
    assert_eq!((record.client.as_str(), record.status), ("192.0.2.7", Some(200)));
    assert_eq!((record.method.as_str(), record.path.as_str()), ("GET", "/a?b=1"));

    let common = r#"host.example - frank [17/May/2015:12:05:03 +0200] "GET / HTTP/1.0" 304 -"#;
    let record = only(common);
    assert_eq!(record.time, COMBINED_TIME);
    assert_eq!((record.client.as_str(), record.status), ("host.example", Some(304)));
}

#[test]
fn odd_fields() {
    let line =
        r#"2001:db8::1 - a [b c] [17/May/2015:10:05:03 +0000] "GET /\"x\\" - - "\"" "a \" b" 1"#;
    let record = only(line);
    assert_eq!(record.time, COMBINED_TIME);
    assert_eq!(record.client, "2001:db8::1");
    assert_eq!(record.path, r#"/\"x\\"#);
    assert_eq!(record.status, None);

    let virtual_host = format!("www.example:443 {COMBINED}");
    assert_eq!(only(&virtual_host).client, "192.0.2.7");
    let no_request = COMBINED.replace("GET /a?b=1 HTTP/1.1", r"\x16\x03\x01");
    assert_eq!(only(&no_request).method, "");
}

#[test]
fn every_cut_of_a_line_is_torn() {
    for end in "192.".len()..COMBINED.len() {
        let cut = &COMBINED[..end];
        // Between two fields, what is left may be a whole line of a shorter format.
        let shorter = cut.trim_end().ends_with(" 5") || cut.trim_end().ends_with(r#" "-""#);
        if !shorter {
            assert_eq!(skipped(cut), (0, 1, 0), "{cut}");
        }
    }
    assert_eq!(skipped(COMBINED.replace("May", "Mai")), (0, 1, 0));
}

#[test]
fn blank_foreign_and_binary_lines() {
    assert_eq!(skipped(""), (0, 0, 0));
    assert_eq!(skipped("\n \t\r\n\0\0\n"), (3, 0, 0));
    assert_eq!(skipped("2023/10/10 08:32:32 [error] 7#0: *1 open() failed\n[]\nhi"), (0, 0, 3));
    assert_eq!(
        skipped(r#"{"level":"info","msg":"started","time":"2021-12-08T14:02:43Z"}"#),
        (0, 0, 1)
    );

    let mut log = b"\xef\xbb\xbf".to_vec();
    log.extend_from_slice(COMBINED.as_bytes());
    log.extend_from_slice(b"\r\n\0\0\0");
    log.extend_from_slice(COMBINED.replace("agent", "\u{fffd}").as_bytes());
    log.extend_from_slice(b"\n\xff\xfe\x00\n");
    let bad = log.windows(3).position(|bytes| bytes == "\u{fffd}".as_bytes()).expect("one");
    log[bad] = 0xff;
    let (records, counts) = read(log);
    assert_eq!(records.iter().map(|record| record.line).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(counts, Counts { lines: 3, blank: 0, torn: 0, foreign: 1 });
}

#[test]
fn overlong_lines() {
    let long = "x".repeat(3 * MAX_LINE);
    let (records, counts) = read(format!("{long}\n{COMBINED}\n{long}"));
    assert_eq!(records.len(), 1);
    assert_eq!(counts, Counts { lines: 3, blank: 0, torn: 2, foreign: 0 });
    let fits = format!("{COMBINED} {}\n{COMBINED}", "x".repeat(MAX_LINE - COMBINED.len() - 1));
    assert_eq!(read(fits).0.len(), 2);
}

#[test]
fn caddy() {
    let line =
        r#"{"ts":1693840791.756499512,"logger":"http.log.access.log0","request":{"remote_ip":
        "192.0.2.1","client_ip":"192.0.2.2","method":"GET","uri":"/","headers":{}},"status":0}"#
            .replace('\n', "");
    let record = only(&line);
    assert_eq!(record.time, 1_693_840_791_756_499_512);
    assert_eq!((record.client.as_str(), record.status), ("192.0.2.2", Some(0)));
    assert_eq!(only(&line.replace("client_ip", "other")).client, "192.0.2.1");
    let text_time = line.replace("1693840791.756499512", r#""2023-09-04T17:19:51.756+0200""#);
    assert_eq!(only(&text_time).time, 1_693_840_791_756_000_000);
    assert_eq!(skipped(line.replace("log.access", "handlers.reverse_proxy")), (0, 0, 1));
    assert_eq!(skipped(&line[..line.len() - 1]), (0, 1, 0));
    assert_eq!(skipped(format!("{line}{line}")), (0, 1, 0));
}

#[test]
fn traefik() {
    let line = r#"{"ClientAddr":"[2001:db8::5]:39490","DownstreamStatus":404,"RequestMethod":"GET",
        "RequestPath":"/x","StartUTC":"2021-12-08T14:02:43.464763557Z",
        "time":"2021-12-08T14:02:44Z"}"#
        .replace('\n', "");
    let record = only(&line);
    assert_eq!(record.time, 1_638_972_163_464_763_557);
    assert_eq!(record.client, "2001:db8::5");
    assert_eq!((record.path.as_str(), record.status), ("/x", Some(404)));
    assert_eq!(only(&line.replace("StartUTC", "x")).time, 1_638_972_164_000_000_000);
    let host = line.replace("ClientAddr", "ClientHost").replace("[2001:db8::5]:39490", "192.0.2.1");
    assert_eq!(only(&host).client, "192.0.2.1");
}

#[test]
fn nginx() {
    let line = r#"{"time_iso8601":"2015-05-17T10:05:03+00:00","remote_addr":"192.0.2.7",
        "request":"GET /a?b=1 HTTP/1.1","status":"200","body_bytes_sent":5}"#
        .replace('\n', "");
    let record = only(&line);
    assert_eq!(record, Record { line: 1, ..only(COMBINED) });
    let local = line.replace("time_iso8601", "time_local");
    let local = local.replace("2015-05-17T10:05:03+00:00", "17/May/2015:10:05:03 +0000");
    assert_eq!(only(&local), record);
    let precise = line.replace("\"status\"", "\"msec\":\"1431857103.25\",\"status\"");
    assert_eq!(only(&precise).time, COMBINED_TIME + 250_000_000);
    assert_eq!(skipped(line.replace("192.0.2.7", "a\\u0000b")), (0, 1, 0));
    assert_eq!(skipped(line.replace("time_iso8601", "when")), (0, 0, 1));
}

#[test]
fn decimal_times() {
    assert_eq!(parse_time("1"), Some(1_000_000_000));
    assert_eq!(parse_time("1693840791756.5"), Some(1_693_840_791_756_500_000));
    assert_eq!(parse_time("1693840791756499512"), Some(1_693_840_791_756_499_512));
    assert_eq!(parse_time("1693840791.0000000019"), Some(1_693_840_791_000_000_001));
    for bad in ["", ".5", "-1", "1e9", "1.2.3", "99999999999999999999", "now"] {
        assert_eq!(parse_time(bad), None, "{bad}");
    }
}

#[test]
fn gzip_in_several_parts_and_cut_off() {
    let pack = |text: String| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("memory")
    };
    let mut packed = pack(format!("{COMBINED}\n"));
    packed.extend(pack(format!("{COMBINED}\n{COMBINED}")));
    let (records, counts) = read(&packed);
    assert_eq!((records.len(), counts.lines), (3, 3));

    packed.truncate(packed.len() - 10);
    let mut log = AccessLog::new(Cursor::new(packed)).expect("the head is there");
    let results: Vec<_> = log.by_ref().collect();
    assert!(results.iter().rev().skip(1).all(Result::is_ok));
    assert!(results.last().is_some_and(Result::is_err));
}
