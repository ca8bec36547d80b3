//! Holds counted instructions against recorded ones: the second half of `ci/count.sh`.
//!
//! ```text
//! tollgate-instructions --rustc VERSION --commit COMMIT [--record] CSV <SUMMARIES
//! ```
//!
//! Reads gungraun's summaries, one JSON object a line, and prints a table. Fails if a workload
//! takes more than [`LIMIT`] percent above its record, if it has none, or if a recorded one was not
//! run. A record of another compiler, or of another target, is compared, but cannot fail the run,
//! and that is said. `--record` writes the records anew instead.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt::Write as _;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::ValueExt;
use serde::Deserialize;
use tollgate_instructions::DECISIONS;

/// Percent by which a workload may rise.
const LIMIT: f64 = 3.0;

/// Reads the processor's counter only where the kernel keeps time by it.
const PRECISE: &str = "clock/precise";

const HEADER: &str = "workload,instructions a decision,commit,rustc version";

struct Options {
    record: bool,
    rustc: String,
    commit: String,
    records: PathBuf,
}

/// What is read of gungraun's summary of a workload, in version 7 of its schema.
#[derive(Deserialize)]
struct Summary {
    version: String,
    function_name: String,
    id: Option<String>,
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    tool: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    total: Total,
}

#[derive(Deserialize)]
struct Total {
    metrics: HashMap<String, Metric>,
}

#[derive(Deserialize)]
struct Metric {
    values: Values,
}

#[derive(Deserialize)]
struct Values {
    new: Option<serde_json::Number>,
}

struct Record {
    instructions: f64,
    rustc: String,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("count: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let options = options()?;
    let counts = counts()?;
    let records = match std::fs::read_to_string(&options.records) {
        Ok(text) => records(&text)?,
        Err(_) if options.record => BTreeMap::new(),
        Err(error) => return Err(format!("{}: {error}", options.records.display()).into()),
    };
    let passed = compare(&counts, &records, &options);
    if options.record {
        write(&counts, &options)?;
        println!("\nrecorded in {}", options.records.display());
        return Ok(true);
    }
    Ok(passed)
}

fn options() -> Result<Options, Box<dyn Error>> {
    let (mut record, mut rustc, mut commit, mut records) = (false, None, None, None);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            lexopt::Arg::Long("record") => record = true,
            lexopt::Arg::Long("rustc") => rustc = Some(arguments.value()?.string()?),
            lexopt::Arg::Long("commit") => commit = Some(arguments.value()?.string()?),
            lexopt::Arg::Value(path) if records.is_none() => records = Some(path.into()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    Ok(Options {
        record,
        rustc: rustc.ok_or("--rustc is missing")?,
        commit: commit.ok_or("--commit is missing")?,
        records: records.ok_or("the path of the records is missing")?,
    })
}

/// Instructions a decision of each workload, in the order in which they ran.
fn counts() -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let mut counts = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let summary: Summary = serde_json::from_str(&line?)?;
        if summary.version != "7" {
            return Err(format!("gungraun's summary is of version {}", summary.version).into());
        }
        let workload =
            [Some(summary.function_name), summary.id].into_iter().flatten().collect::<Vec<_>>();
        let workload = workload.join("/");
        let instructions = summary
            .profiles
            .iter()
            .find(|profile| profile.tool == "Callgrind")
            .and_then(|profile| profile.data.total.metrics.get("Ir")?.values.new.as_ref()?.as_f64())
            .filter(|&instructions| instructions > 0.0)
            .ok_or_else(|| format!("no instructions were counted in {workload}"))?;
        // As many digits as the records have.
        let a_decision = (instructions / DECISIONS as f64 * 100.0).round() / 100.0;
        counts.push((workload, a_decision));
    }
    if counts.is_empty() { Err("no workload was run".into()) } else { Ok(counts) }
}

fn records(text: &str) -> Result<BTreeMap<String, Record>, Box<dyn Error>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(format!("the records do not begin with: {HEADER}").into());
    }
    lines
        .map(|line| match line.split(',').collect::<Vec<_>>()[..] {
            [workload, instructions, _, rustc] => {
                let instructions = instructions.parse()?;
                Ok((workload.to_owned(), Record { instructions, rustc: rustc.to_owned() }))
            }
            _ => Err(format!("a record is not of four fields: {line}").into()),
        })
        .collect()
}

/// Prints the table and what is to be said of it. False if the run has failed.
fn compare(
    counts: &[(String, f64)],
    records: &BTreeMap<String, Record>,
    options: &Options,
) -> bool {
    let width = counts.iter().map(|(workload, _)| workload.len()).max().unwrap_or(0);
    let (mut failures, mut warnings) = (Vec::new(), Vec::new());
    let mut others: Vec<&str> = Vec::new();
    println!("{:width$}  {:>12}  {:>10}  {:>8}", "workload", "instructions", "recorded", "change");
    for (workload, instructions) in counts {
        let Some(record) = records.get(workload) else {
            println!("{workload:width$}  {instructions:>12.2}  {:>10}  {:>8}", "-", "-");
            failures.push(format!("{workload} has no record: ci/count.sh --record"));
            continue;
        };
        let change = (instructions / record.instructions - 1.0) * 100.0;
        println!(
            "{workload:width$}  {instructions:>12.2}  {:>10.2}  {change:>+7.2}%",
            record.instructions
        );
        let other = record.rustc != options.rustc;
        if other && !others.contains(&record.rustc.as_str()) {
            others.push(&record.rustc);
        }
        if change > LIMIT {
            let what = format!("{workload} takes {change:.2} % more, above {LIMIT} %");
            let excused = other || (workload == PRECISE && !kernel_keeps_time_by_counter());
            if excused { &mut warnings } else { &mut failures }.push(what);
        }
    }
    for workload in records.keys() {
        if counts.iter().all(|(counted, _)| counted != workload) {
            failures.push(format!("{workload} is recorded, and was not run"));
        }
    }
    println!("\nAn instruction count is a decision's, of {DECISIONS} of them; lower is better.");
    for other in others {
        println!(
            "NOT GATED: recorded with {other}, counted with {}: a rise is only warned about",
            options.rustc
        );
    }
    if !kernel_keeps_time_by_counter() {
        println!("NOT GATED: {PRECISE}, as the kernel here does not keep time by the counter");
    }
    if options.record {
        return true;
    }
    for warning in warnings {
        println!("warning: {warning}");
    }
    for failure in &failures {
        println!("FAILED: {failure}");
    }
    failures.is_empty()
}

fn write(counts: &[(String, f64)], options: &Options) -> Result<(), Box<dyn Error>> {
    let mut text = format!("{HEADER}\n");
    for (workload, instructions) in counts {
        writeln!(text, "{workload},{instructions:.2},{},{}", options.commit, options.rustc)?;
    }
    if let Some(folder) = options.records.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(std::fs::write(&options.records, text)?)
}

/// The condition on which the precise clock reads it.
fn kernel_keeps_time_by_counter() -> bool {
    let source = Path::new("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
}
