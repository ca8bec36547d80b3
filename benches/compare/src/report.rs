//! What is printed: tables of times, then ratios, one a line; and the table of the exact cases.

use std::io::{self, Write};

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle, presets};

use crate::contenders::{ABOUT, FLOOR};
use crate::exact::{Finding, REAL_CLOCK_ONLY};
use crate::measure::{Outcome, Row};
use crate::workload::Kind;

/// A table's look: no lines but one under the header.
const STYLE: TableStyle =
    presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// Prints the tables of times: of limiters with keys, and of those without.
pub fn times(out: &mut impl Write, rows: &[Row], cores: usize) -> io::Result<()> {
    let (one_state, keyed): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.workload.set.kind == Kind::OneState);
    for rows in [keyed, one_state] {
        if !rows.is_empty() {
            table_of_times(out, &rows, cores)?;
        }
    }
    Ok(())
}

fn table_of_times(out: &mut impl Write, rows: &[&Row], cores: usize) -> io::Result<()> {
    let names: Vec<&str> = rows[0].peers.iter().map(|peer| peer.name).collect();
    let is_measured = |column: usize| rows.iter().any(|row| row.peers[column].outcome.is_ok());
    let (shown, absent): (Vec<usize>, Vec<usize>) =
        (0..names.len()).partition(|&column| is_measured(column));

    let mut notes = Notes::default();
    let mut table = Table::new();
    let header = shown.iter().map(|&column| names[column]);
    table.load_style(STYLE).set_header(["ns a call", "tollgate"].into_iter().chain(header));
    for row in rows {
        let mut name = row.workload.name.to_owned();
        if row.workload.way.threads() > cores {
            name += &notes.mark("more threads than cores");
        }
        let mut cells = vec![name, cell(&row.ours, &mut notes)];
        cells.extend(shown.iter().map(|&column| cell(&row.peers[column].outcome, &mut notes)));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "\n{}\n", table.trim_fmt())?;
    for (name, about) in ABOUT {
        if shown.iter().any(|&column| names[column] == name) {
            writeln!(out, "{name}: {about}")?;
        }
    }
    for column in absent {
        // One reason for each, as a rule.
        let reason = rows.iter().find_map(|row| row.peers[column].outcome.as_ref().err());
        writeln!(out, "{} is left out: {}", names[column], reason.map_or("", String::as_str))?;
    }
    notes.print(out)
}

fn cell(outcome: &Outcome, notes: &mut Notes) -> String {
    match outcome {
        Ok(rounds) => format!("{:.1}", median(rounds.clone())),
        Err(reason) => format!("-{}", notes.mark(reason)),
    }
}

/// Reasons that stand under a table, and their marks in it.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn mark(&mut self, reason: &str) -> String {
        let known = self.0.iter().position(|note| note == reason);
        let index = known.unwrap_or_else(|| {
            self.0.push(reason.to_owned());
            self.0.len() - 1
        });
        format!(" ({})", index + 1)
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        for (index, note) in self.0.iter().enumerate() {
            writeln!(out, "({}) {note}", index + 1)?;
        }
        Ok(())
    }
}

/// Prints each peer's time over ours, and ours over the floor.
pub fn ratios(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    if !rows.is_empty() {
        writeln!(out, "\nPeers' times over ours, and ours over the array's")?;
    }
    for row in rows {
        for peer in &row.peers {
            let Some(ratio) = ratio(&peer.outcome, &row.ours) else { continue };
            if peer.name == FLOOR {
                writeln!(out, "floor {} {:.2}", row.workload.name, 1.0 / ratio)?;
            } else {
                writeln!(out, "ratio {} {} {ratio:.2}", row.workload.name, peer.name)?;
            }
        }
    }
    Ok(())
}

/// The median over rounds of a peer's time over ours.
pub fn ratio(peer: &Outcome, ours: &Outcome) -> Option<f64> {
    let (Ok(peer), Ok(ours)) = (peer, ours) else { return None };
    Some(median(peer.iter().zip(ours).map(|(peer, ours)| peer / ours).collect()))
}

/// The middle one, or what is midway between the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// Prints how many calls were admitted in the exact cases; what is not right has a mark.
pub fn exact(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    let Some(first) = findings.first() else { return Ok(()) };
    let mut table = Table::new();
    let peers = first.answers.iter().map(|answer| answer.peer);
    let header = ["calls admitted", "quota", "right"].into_iter().chain(peers);
    table.load_style(STYLE).set_header(header);
    let mut notes = Notes::default();
    for finding in findings {
        let right = finding.right.to_string();
        let mut cells = vec![finding.case.to_owned(), finding.quota.clone(), right];
        cells.extend(finding.answers.iter().map(|answer| match &answer.admitted {
            Ok(admitted) if *admitted == finding.right => admitted.to_string(),
            Ok(admitted) => format!("{admitted} WRONG"),
            Err(reason) => format!("-{}", notes.mark(reason)),
        }));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(out, "\n{}\n", table.trim_fmt())?;
    notes.print(out)?;
    for peer in REAL_CLOCK_ONLY {
        writeln!(out, "{peer}: its time cannot be given, so not asked")?;
    }
    let wrong = |peer: usize| {
        let answers = findings.iter().map(|finding| (&finding.answers[peer], finding.right));
        answers.filter(|(answer, right)| answer.admitted.as_ref().is_ok_and(|n| n != right)).count()
    };
    for (peer, answer) in first.answers.iter().enumerate() {
        writeln!(out, "wrong {} {} of {}", answer.peer, wrong(peer), findings.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        let ratio = ratio(&Ok(vec![4.0, 9.0, 2.0]), &Ok(vec![2.0, 3.0, 2.0]));
        assert!(ratio.is_some_and(|ratio| (ratio - 2.0).abs() < 1e-9));
    }
}
