//! tollgate beside what else one would take, on the same machine in the same run.
//!
//! ```text
//! cargo run --release --manifest-path benches/compare/Cargo.toml -- [OPTIONS]
//! ```
//!
//! Other limiters, and the one that is written by hand on a concurrent map, do the same work: the
//! same keys in the same order, made beforehand; a quota that admits all calls, or refuses all of
//! them; each by the clock that it has by default. They take turns, a slice of calls each, for five
//! rounds; a time is the median over rounds. Behind the tables of times stand
//!
//! * `ratio WORKLOAD PEER X`: the peer's time over ours, the median of the rounds' ratios;
//! * `floor WORKLOAD X`: our time over that of one atomic operation on an array that has the key
//!   as its index.
//!
//! A coarse clock and batches are ways of ours to decide: there, peers are the same as in the
//! workload without, and measured once for all three; governor with its own coarse clock is beside
//! ours. `chain` lets each key depend on the answer before: latency, as far as the processor does
//! not guess the answer. `2-threads` is the time for which both together need a call. `fill` asks
//! for each key once; our table is made beforehand, and `and-build` counts that, too.
//!
//! The last table shows who admits the right number of calls, where time can be given.
//!
//! The whole takes some ten minutes on a quiet machine and 4 GB of memory; `--quick` leaves out the
//! ten million keys.

mod contender;
mod contenders;
mod exact;
mod files;
mod fill;
mod machine;
mod measure;
mod progress;
#[allow(
    dead_code,
    unreachable_pub,
    clippy::pedantic,
    reason = "the tests' own, which use more of it"
)]
#[path = "../../../tests/it/reference.rs"]
mod reference;
mod report;
mod workload;

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::*;

use crate::machine::Machine;
use crate::measure::{Effort, Row};
use crate::progress::Progress;
use crate::workload::{Set, Workload};

/// What `--help` prints.
const HELP: &str = "\
Measures tollgate beside other rate limiters, and shows who admits the right number of calls.

Usage: tollgate-compare [OPTIONS]

  --only NAME        workloads that have NAME in theirs; may be given more than once
  --quick            within a minute: smaller slices, and no workload of ten million keys
  --rounds N         how often each contender has its turn           [default: 5]
  --json FILE        write what is found to FILE as well
  --csv FILE         write the times to FILE as well, to be kept (see benches/record)
  --exact            only the table of admitted calls, nothing is measured
  --list             print the names of the workloads
  -h, --help         print this";

/// Most keys of a workload of `--quick`.
const QUICK_KEYS: usize = 1_000_000;

/// What the command line asks for.
#[derive(Debug)]
struct Options {
    only: Vec<String>,
    quick: bool,
    rounds: usize,
    json: Option<PathBuf>,
    csv: Option<PathBuf>,
    exact: bool,
}

/// What to do.
#[derive(Debug)]
enum Task {
    Compare(Options),
    Print(String),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if cause == Some(io::ErrorKind::BrokenPipe) {
                return ExitCode::SUCCESS;
            }
            eprintln!("tollgate-compare: {error} (see --help)");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    let options = match parse_options(lexopt::Parser::from_env())? {
        Task::Compare(options) => options,
        Task::Print(text) => return Ok(writeln!(out, "{text}")?),
    };
    let (selected, left_out) = select(&options)?;
    // Before all the measuring, so that nothing is lost by a wrong path.
    let create =
        |path: &PathBuf| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let json = options.json.as_ref().map(create).transpose()?;
    let csv = options.csv.as_ref().map(create).transpose()?;
    let machine = Machine::look();
    writeln!(out, "{}", machine.headline())?;
    if !left_out.is_empty() {
        writeln!(out, "Left out by --quick: {}", left_out.join(", "))?;
    }
    let rows = compare(&selected, &options);
    report::times(&mut out, &rows, machine.cores)?;
    report::ratios(&mut out, &rows)?;

    let findings = match options.exact || options.only.is_empty() {
        true => exact::find(&exact::cases()),
        false => Vec::new(),
    };
    report::exact(&mut out, &findings)?;
    if let Some(file) = json {
        files::write(file, &machine, &rows, &findings)?;
    }
    if let Some(file) = csv {
        files::write_csv(file, &machine, &rows)?;
    }
    Ok(())
}

/// The workloads that are asked for, and the names of those that are too large for `--quick`.
fn select(options: &Options) -> Result<(Vec<Workload>, Vec<&'static str>), String> {
    let is_named = |workload: &&Workload| {
        options.only.is_empty() || options.only.iter().any(|name| workload.name.contains(name))
    };
    for name in &options.only {
        if !workload::ALL.iter().any(|workload| workload.name.contains(name)) {
            return Err(format!(
                "no workload has '{name}' in its name; there are: {}",
                names(", ")
            ));
        }
    }
    if options.exact {
        return Ok((Vec::new(), Vec::new()));
    }
    let all = workload::ALL.iter().filter(is_named).copied();
    let (selected, left_out): (Vec<_>, Vec<_>) =
        all.partition(|workload| !options.quick || workload.set.keys <= QUICK_KEYS);
    Ok((selected, left_out.iter().map(|workload| workload.name).collect()))
}

/// Measures workloads, set by set.
fn compare(selected: &[Workload], options: &Options) -> Vec<Row> {
    let calls = if options.quick { 100_000 } else { 2_000_000 };
    let effort = Effort { rounds: options.rounds, calls };
    let mut sets: Vec<Set> = Vec::new();
    for workload in selected {
        if !sets.contains(&workload.set) {
            sets.push(workload.set);
        }
    }
    let of = |set: Set| selected.iter().filter(move |one| one.set == set).copied();
    let bar = Progress::new(sets.iter().map(|&set| measure::steps(of(set), effort)).sum());
    let mut rows = Vec::new();
    for set in sets {
        let workloads: Vec<Workload> = of(set).collect();
        rows.extend(measure::measure(set, &workloads, effort, &bar));
    }
    bar.finish();
    rows
}

/// The names of all workloads.
fn names(between: &str) -> String {
    workload::ALL.map(|workload| workload.name).join(between)
}

/// Reads the command line.
fn parse_options(mut parser: lexopt::Parser) -> Result<Task, lexopt::Error> {
    let mut options =
        Options { only: Vec::new(), quick: false, rounds: 5, json: None, csv: None, exact: false };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => options.only.push(parser.value()?.string()?),
            Long("quick") => options.quick = true,
            Long("rounds") => options.rounds = parser.value()?.parse_with(parse_rounds)?,
            Long("json") => options.json = Some(parser.value()?.into()),
            Long("csv") => options.csv = Some(parser.value()?.into()),
            Long("exact") => options.exact = true,
            Long("list") => return Ok(Task::Print(names("\n"))),
            Short('h') | Long("help") => return Ok(Task::Print(HELP.to_owned())),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Task::Compare(options))
}

/// One round or more.
fn parse_rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("there has to be a round".to_owned()),
        Ok(rounds) => Ok(rounds),
        Err(_) => Err("not a number of rounds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<Options, String> {
        match parse_options(lexopt::Parser::from_args(arguments)) {
            Ok(Task::Compare(options)) => Ok(options),
            Ok(Task::Print(text)) => Err(text),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn command_line() {
        let given = options(&["--quick", "--only=zipf", "--only", "hot", "--rounds=7"]);
        let given = given.expect("it is right");
        assert_eq!((given.only.len(), given.rounds, given.quick), (2, 7, true));
        for wrong in ["--rounds=0", "--rounds=x", "--what", "keys", "--only"] {
            assert!(options(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn workloads_are_selected_by_a_part_of_their_names() {
        let select = |arguments: &[&str]| select(&options(arguments).expect("they are right"));
        let (selected, left_out) = select(&["--only=10M", "--quick"]).expect("there are some");
        assert!(selected.is_empty() && left_out.len() == 8, "{left_out:?}");
        assert!(select(&["--only=nothing"]).is_err_and(|error| error.contains("keys-1k-chain")));
        assert_eq!(select(&[]).expect("there are some").0.len(), workload::ALL.len());
    }
}
