//! Replays an access log through every algorithm at once and prints what each would have done.
//!
//! Requests are keyed by client and decided at the log's own times, line by line, also where these
//! go backwards. Without a file, a made-up log of a million requests is replayed. With `--verify`,
//! each decision is held against a naive reference limiter. For the options, see `--help`:
//!
//! ```text
//! cargo run --release --example replay -- --limit 10/s --burst 20 access.log.gz
//! ```

#![allow(unreachable_pub, reason = "the modules of a program")]

use std::error::Error;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::SignedDuration;
use lexopt::prelude::*;
use tollgate::Quota;

use crate::access_log::{AccessLog, Counts, Record};
use crate::lanes::Replay;
use crate::sample::Sample;

mod access_log;
mod lanes;
#[allow(dead_code, reason = "shared with the tests, which use more of it")]
#[path = "../../tests/it/reference.rs"]
mod reference;
mod report;
mod sample;
mod verify;

/// How many requests are decided by one algorithm before the next has its turn.
const CHUNK: usize = 4096;

/// What `--help` prints.
const HELP: &str = "\
Replays access logs through every rate-limiting algorithm, keyed by client.

Usage: replay [OPTIONS] [FILE...]

  FILE               a log in the common or combined format, or JSON lines of Caddy,
                     Traefik or nginx; perhaps gzipped; - is the standard input;
                     without any, a made-up log is replayed

  --limit N/PERIOD   the quota, such as 10/s, 600/1m or 5/250ms   [default: 10/s]
  --burst N          requests allowed at once        [default: twice the limit's N]
  --capacity N       clients that a limiter has room for       [default: 100000]
  --seed N           seed of the made-up log                         [default: 1]
  --requests N       length of the made-up log                 [default: 1000000]
  --verify           compare every decision with a naive reference limiter
  -h, --help         print this

Exit status: 0 if all went well, 1 if --verify found a difference, 2 on any other error.";

/// What the command line asks for.
struct Options {
    verify: bool,
    seed: u64,
    requests: u64,
    limit: NonZeroU64,
    period: Duration,
    burst: NonZeroU64,
    capacity: NonZeroUsize,
    files: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if cause == Some(io::ErrorKind::BrokenPipe) {
                return ExitCode::SUCCESS;
            }
            eprintln!("replay: {error}");
            ExitCode::from(2)
        }
    }
}

/// Does what the command line asks for.
fn run() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    let Some(options) = parse_options(lexopt::Parser::from_env())? else {
        writeln!(out, "{HELP}")?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let quota = Quota::new(options.limit.get(), options.period).burst(options.burst.get());
    let mut replay = Replay::new(quota, options.capacity.get(), options.verify)?;

    let bar = progress_bar(&options);
    let mut counts = Counts::default();
    let readable = if options.files.is_empty() {
        let sample = Sample::new(options.seed, options.requests);
        feed(&mut replay, &bar, "sample", sample.map(Ok))?;
        counts.lines = options.requests;
        true
    } else {
        feed_files(&mut replay, &bar, &options.files, &mut counts)
    };
    bar.finish_and_clear();

    if replay.clients.is_empty() && !options.files.is_empty() {
        // An empty log is no error; one of which nothing was understood is.
        let other = counts.lines - counts.blank;
        if other > 0 {
            eprintln!("replay: none of {other} lines is a request in a format that is known here");
        }
        let is_empty = readable && other == 0;
        return Ok(if is_empty { ExitCode::SUCCESS } else { ExitCode::from(2) });
    }
    let Options { limit, period, burst, .. } = options;
    writeln!(out, "Quota: {limit} per {period:?}, burst {burst}")?;
    report::print(&mut out, &replay, counts)?;
    if replay.clients.len() > options.capacity.get() {
        writeln!(out, "\nThere were more clients than room for them: see --capacity.")?;
    }
    let same = report::print_differences(&mut out, &replay)?;
    out.flush()?;
    Ok(match (same, readable) {
        (false, _) => ExitCode::from(1),
        (true, false) => ExitCode::from(2),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Replays files, each as far as it can be read, and adds up their lines.
///
/// They are taken in the order of their first requests, since the parts of a rotated log are seldom
/// named oldest first. Returns whether all could be read to the end.
fn feed_files(
    replay: &mut Replay,
    bar: &ProgressBar,
    paths: &[PathBuf],
    counts: &mut Counts,
) -> bool {
    let mut readable = true;
    let mut complain = |path: &Path, error: io::Error| {
        bar.suspend(|| eprintln!("replay: {}: {error}", path.display()));
        readable = false;
    };
    let mut logs = Vec::new();
    for path in paths {
        match AccessLog::open(path) {
            Ok(mut log) => logs.push((path, log.next(), log)),
            Err(error) => complain(path, error),
        }
    }
    logs.sort_by_key(|(_, first, _)| match first {
        Some(Ok(record)) => Some(record.time),
        _ => None,
    });
    for (path, first, mut log) in logs {
        let records = first.into_iter().chain(&mut log);
        if let Err(error) = feed(replay, bar, &path.display().to_string(), records) {
            complain(path, error);
        }
        *counts += log.counts();
    }
    readable
}

/// Has requests decided chunk by chunk; an error of theirs is returned after the rest is decided.
fn feed(
    replay: &mut Replay,
    bar: &ProgressBar,
    source: &str,
    records: impl Iterator<Item = io::Result<Record>>,
) -> io::Result<()> {
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut outcome = Ok(());
    for record in records {
        match record {
            Ok(record) => chunk.push(record),
            Err(error) => outcome = Err(error),
        }
        if chunk.len() == CHUNK {
            replay.decide(source, &chunk);
            bar.inc(CHUNK as u64);
            chunk.clear();
        }
    }
    replay.decide(source, &chunk);
    bar.inc(chunk.len() as u64);
    outcome
}

/// The line that shows how far the replay is, on a terminal only.
fn progress_bar(options: &Options) -> ProgressBar {
    let length = options.files.is_empty().then_some(options.requests);
    let target = if io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let template = match length {
        Some(_) => "{bar:40} {human_pos} of {human_len} requests, {per_sec}",
        None => "{spinner} {human_pos} requests, {per_sec}",
    };
    let bar = ProgressBar::with_draw_target(length, target);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Reads the command line; `None` if it asks for help.
fn parse_options(mut parser: lexopt::Parser) -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        verify: false,
        seed: 1,
        requests: 1_000_000,
        limit: NonZeroU64::MIN.saturating_add(9),
        period: Duration::from_secs(1),
        burst: NonZeroU64::MIN,
        capacity: NonZeroUsize::MIN.saturating_add(99_999),
        files: Vec::new(),
    };
    let mut burst = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("verify") => options.verify = true,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("requests") => options.requests = parser.value()?.parse()?,
            Long("limit") => {
                (options.limit, options.period) = parser.value()?.parse_with(parse_rate)?;
            }
            Long("burst") => burst = Some(parser.value()?.parse()?),
            Long("capacity") => options.capacity = parser.value()?.parse()?,
            Short('h') | Long("help") => return Ok(None),
            Value(path) => options.files.push(path.into()),
            other => return Err(other.unexpected()),
        }
    }
    options.burst = burst.unwrap_or(options.limit.saturating_add(options.limit.get()));
    Ok(Some(options))
}

/// Reads `10/s`, `600/1m` or `5/250ms`.
fn parse_rate(text: &str) -> Result<(NonZeroU64, Duration), Box<dyn Error + Send + Sync>> {
    let (limit, period) = text.split_once('/').ok_or("not of the form N/PERIOD, such as 10/s")?;
    let one = if period.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "1" };
    let period = Duration::try_from(format!("{one}{period}").parse::<SignedDuration>()?)?;
    if period.is_zero() {
        return Err("the period is zero".into());
    }
    Ok((limit.parse()?, period))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of a command line, or what is wrong with it.
    fn options(arguments: &[&str]) -> Result<Option<Options>, lexopt::Error> {
        parse_options(lexopt::Parser::from_args(arguments))
    }

    #[test]
    fn command_line() {
        let given = options(&["--limit", "5/250ms", "a.log", "--burst=7", "-"]);
        let given = given.expect("it is right").expect("it is no call for help");
        assert_eq!((given.limit.get(), given.burst.get()), (5, 7));
        assert_eq!(given.period, Duration::from_millis(250));
        assert_eq!(given.files, [Path::new("a.log"), Path::new("-")]);

        let default = options(&["--limit=30/m"]).expect("it is right").expect("no help");
        assert_eq!((default.burst.get(), default.period.as_secs()), (60, 60));
        assert!(options(&["--help"]).expect("it is right").is_none());
        for wrong in ["--limit=10", "--limit=0/s", "--limit=1/0s", "--burst=0", "--what"] {
            assert!(options(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sample_is_decided_as_by_the_reference() {
        let quota = Quota::new(10, Duration::from_secs(1)).burst(20);
        let mut replay = Replay::new(quota, 10_000, true).expect("the quota is right");
        let bar = ProgressBar::hidden();
        // Long enough for a flood.
        let sample = Sample::new(1, 40_000);
        feed(&mut replay, &bar, "sample", sample.map(Ok)).expect("a sample cannot fail");

        let mut printed = Vec::new();
        report::print(&mut printed, &replay, Counts::default()).expect("memory is writable");
        let same = report::print_differences(&mut printed, &replay).expect("memory is writable");
        let printed = String::from_utf8(printed).expect("it is text");
        assert!(same, "{printed}");
        assert!(printed.starts_with("40,000 requests of "), "{printed}");
        for lane in &replay.lanes {
            assert!(printed.contains(lane.name), "{printed}");
            assert!(lane.refused > 1000, "{printed}");
        }
    }

    #[test]
    fn requests_before_an_error_are_decided() {
        let quota = Quota::new(10, Duration::from_secs(1));
        let mut replay = Replay::new(quota, 100, false).expect("the quota is right");
        let records = Sample::new(1, 5).map(Ok).chain([Err(io::ErrorKind::UnexpectedEof.into())]);
        assert!(feed(&mut replay, &ProgressBar::hidden(), "sample", records).is_err());
        assert_eq!(replay.lanes[0].admitted, 5);
    }
}
