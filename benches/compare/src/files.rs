//! The same as is printed, for programs, and the times alone, to be kept.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::exact::Finding;
use crate::machine::Machine;
use crate::measure::{Outcome, Row};
use crate::report::{median, ratio};

#[derive(Serialize)]
struct Report<'a> {
    machine: &'a Machine,
    times: Vec<Time<'a>>,
    exact: &'a [Finding],
}

/// One contender in one workload.
#[derive(Serialize)]
struct Time<'a> {
    workload: &'a str,
    contender: &'a str,
    /// The median over rounds.
    nanos: Option<f64>,
    /// Its time over ours.
    ratio: Option<f64>,
    rounds: &'a [f64],
    left_out: Option<&'a str>,
}

/// Writes a file that is empty yet.
pub fn write(file: File, machine: &Machine, rows: &[Row], exact: &[Finding]) -> io::Result<()> {
    let times = rows.iter().flat_map(|row| {
        let peers = row.peers.iter().map(move |peer| time(row, peer.name, &peer.outcome));
        std::iter::once(time(row, row.workload.ours.name(), &row.ours)).chain(peers)
    });
    let report = Report { machine, times: times.collect(), exact };
    let mut file = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut file, &report)?;
    writeln!(file)?;
    file.flush()
}

/// Writes the times as a table with a head: on what they were measured, and by which command.
pub fn write_csv(mut file: File, machine: &Machine, rows: &[Row]) -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    writeln!(file, "# {}", machine.headline())?;
    writeln!(
        file,
        "# cargo run --release --manifest-path benches/compare/Cargo.toml -- {}",
        arguments.join(" ")
    )?;
    let mut table = csv::Writer::from_writer(file);
    table.write_record(["workload", "contender", "nanoseconds a call", "its time over ours"])?;
    for row in rows {
        let ours = (row.workload.ours.name(), &row.ours);
        let peers = row.peers.iter().map(|peer| (peer.name, &peer.outcome));
        for (name, outcome) in std::iter::once(ours).chain(peers) {
            let Ok(rounds) = outcome else { continue };
            let nanos = format!("{:.1}", median(rounds.clone()));
            let ratio = ratio(outcome, &row.ours).map_or(String::new(), |one| format!("{one:.2}"));
            table.write_record([row.workload.name, name, &nanos, &ratio])?;
        }
    }
    table.flush()
}

fn time<'a>(row: &'a Row, contender: &'a str, outcome: &'a Outcome) -> Time<'a> {
    Time {
        workload: row.workload.name,
        contender,
        nanos: outcome.as_ref().ok().map(|rounds| median(rounds.clone())),
        ratio: ratio(outcome, &row.ours),
        rounds: outcome.as_deref().unwrap_or_default(),
        left_out: outcome.as_ref().err().map(String::as_str),
    }
}
