//! The soak: eight threads, a hundred million keys that come and go, a thousand that are watched.
//!
//! ```text
//! cargo test --release --locked --test soak -- --minutes 30
//! ```
//!
//! Each segment of the run has an algorithm and a limiter of its own (`plan.rs`). Each round of it
//! is between two barriers, and within it each thread calls keys of four kinds, in turn, by a clock
//! of its own, which is up to 8 ms from the others' and is set forward and back (`worker.rs`):
//!
//! * *Strangers* are asked for once and fall idle a few rounds later, so that their cells are taken
//!   for the next ones. No bucket refuses them, and windows do only where a faster clock is in
//!   another window.
//! * *Contested* strangers are asked for by all threads at one instant, until they refuse: exactly
//!   the burst is admitted.
//! * *Free* keys live on. All threads call them at once, at one instant or each by its own clock;
//!   the sum of the answers is the reference's (`crowd.rs` says why it can be told).
//! * *Serial* keys are called by one thread at a time, under a lock of the soak's own, while the
//!   others race in the same buckets. Every answer is the reference's, in all its parts. Some are
//!   drained and then sleep for long, some are always about to fall idle.
//!
//! Three things keep this from being a plain comparison. Each is allowed for as far as it is
//! documented and no further, so that one wrong refusal is a failure:
//!
//! * A key that is idle by a fast clock may be forgotten, and met again by a slow one. The answer
//!   lies between those of two references (`known.rs`), and where they agree there is no doubt.
//! * A call during which the quota changes may go by either quota. Both accounts are kept until an
//!   answer tells (`watched.rs`).
//! * A thread that was off the processor in the midst of a call meets the keys of its future. The
//!   barriers bound these to a round's, so that buckets are never full: one that is, is a failure.
//!
//! Quotas change about every second: other rates and limits in the same units, and other units. A
//! change is dated by the fastest clock. If it were dated by a slower one, a key that the fastest
//! had forgotten under the old quota would be settled as if it owed nothing, and the reference,
//! which has forgotten nothing, would call that an over-admission.
//!
//! Races of a few instructions are seldom met by time alone; they are what `loom-tests` is for.

#![allow(unreachable_pub, reason = "the modules of a program")]

mod crowd;
mod known;
mod plan;
mod progress;
#[allow(dead_code, reason = "shared with the other tests, which use more of it")]
#[path = "../it/reference.rs"]
mod reference;
mod report;
mod run;
mod shared;
mod tally;
mod watched;
mod worker;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lexopt::prelude::*;

use crate::plan::{SEGMENTS, THREADS};
use crate::progress::Progress;
use crate::run::{Ended, INTERRUPTED, run_segment};

/// What `--help` prints.
const HELP: &str = "\
Holds the engine against the reference for a time, with eight threads.

Usage: cargo test --release --test soak -- [OPTIONS]

  --minutes N        how long; parts of minutes are allowed      [default: a third]
  --seed N           where keys lie and what is asked            [default: by chance]
  -h, --help         print this

Exit status: 0 if all that was asked was covered and no answer was wrong, 1 if not, 2 if the options
make no sense, 130 if it was interrupted.";

struct Options {
    whole: Duration,
    seed: u64,
}

fn main() -> ExitCode {
    match parse_options(lexopt::Parser::from_env()) {
        Ok(Some(options)) => soak(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(2)
        }
    }
}

/// Reads the command line; `None` if there is nothing to do.
fn parse_options(mut parser: lexopt::Parser) -> Result<Option<Options>, lexopt::Error> {
    // As one of the tests, and shorter still where nothing is optimised.
    let whole = Duration::from_secs(if cfg!(debug_assertions) { 6 } else { 20 });
    let mut options = Options { whole, seed: fastrand::u64(..) };
    let (mut is_listed, mut is_left_out) = (false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("minutes") => options.whole = parser.value()?.parse_with(parse_minutes)?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Short('h') | Long("help") => {
                println!("{HELP}");
                return Ok(None);
            }
            // What is said to all test binaries alike, to list, filter or show tests.
            Long("list") => is_listed = true,
            Long("ignored") => is_left_out = true,
            Long("nocapture" | "no-capture" | "show-output" | "quiet" | "exact") | Short('q') => {}
            Long("test-threads" | "format" | "color" | "skip") => drop(parser.value()?),
            Value(filter) => is_left_out |= !"soak".contains(&*filter.to_string_lossy()),
            other => return Err(other.unexpected()),
        }
    }
    if is_listed && !is_left_out {
        println!("soak: test");
    }
    Ok((!is_listed && !is_left_out).then_some(options))
}

fn parse_minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number of minutes")?;
    let is_sensible = (0.1..=10_000.0).contains(&minutes);
    is_sensible
        .then(|| Duration::from_secs_f64(minutes * 60.0))
        .ok_or("not from 0.1 to 10000".into())
}

fn soak(options: &Options) -> ExitCode {
    let Options { whole, seed } = *options;
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).expect("one handler");
    println!("soak: {} s, seed {seed}", whole.as_secs_f64());
    let mut progress = Progress::new(whole);
    let mut strangers = [0; THREADS];
    let mut outcomes = Vec::new();
    for number in 0..SEGMENTS.len() {
        let seed = seed.wrapping_add(number as u64);
        let outcome = run_segment(number, seed, whole, &mut strangers, &mut progress);
        progress.end_segment(outcome.keys);
        let goes_on = outcome.ended == Ended::InTime && outcome.faults.is_empty();
        outcomes.push(outcome);
        if !goes_on {
            break;
        }
    }
    progress.clear();
    report::print(&outcomes);
    let complaints = report::complaints(&outcomes, whole);
    if complaints.is_empty() {
        println!("soak: passed");
        return ExitCode::SUCCESS;
    }
    complaints.iter().for_each(|complaint| println!("soak: {complaint}"));
    if INTERRUPTED.load(Ordering::SeqCst) {
        println!("soak: INTERRUPTED");
        return ExitCode::from(130);
    }
    println!("soak: FAILED (seed {seed})");
    ExitCode::FAILURE
}
