//! The same as is printed, for programs.

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
