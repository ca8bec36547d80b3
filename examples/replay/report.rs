//! The printed outcome: what each algorithm did, to whom, and what became of the lines.

use std::cmp::Reverse;
use std::io::{self, Write};

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle, presets};
use indicatif::HumanCount;
use jiff::{SignedDuration, Timestamp};

use crate::access_log::Counts;
use crate::lanes::{Lane, Replay};

/// How many of the most refused clients are named for each algorithm.
const WORST: usize = 5;

/// A table's look: no lines but one under the header.
const STYLE: TableStyle =
    presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// Prints the whole report.
pub fn print(out: &mut impl Write, replay: &Replay, counts: Counts) -> io::Result<()> {
    headline(out, replay)?;
    if replay.span.is_some() {
        writeln!(out, "\n{}", algorithms(replay).trim_fmt())?;
        writeln!(out, "\nMost refused clients\n\n{}", worst_clients(replay).trim_fmt())?;
    }
    writeln!(out, "\nLines\n\n{}", lines(replay, counts).trim_fmt())
}

/// Prints the first differences from the reference, or that there are none.
///
/// Returns whether there are none.
pub fn print_differences(out: &mut impl Write, replay: &Replay) -> io::Result<bool> {
    let Some((first, total)) = replay.differences() else {
        return Ok(true);
    };
    if total == 0 {
        writeln!(out, "\nVerified: every decision is the reference's.")?;
        return Ok(true);
    }
    writeln!(out, "\n{} decisions differ from the reference; the first:", HumanCount(total))?;
    for (algorithm, difference) in first {
        let record = &difference.record;
        // A log may hold anything, so it is escaped, lest it speaks to the terminal.
        writeln!(
            out,
            "{}:{}: {} at {}: {} {}\n    {algorithm}: {}\n    reference: {}",
            difference.source,
            record.line,
            record.client.escape_debug(),
            utc(record.time, 9),
            record.method.escape_debug(),
            record.path.escape_debug(),
            difference.ours,
            difference.reference,
        )?;
    }
    Ok(false)
}

/// Prints how much was replayed.
fn headline(out: &mut impl Write, replay: &Replay) -> io::Result<()> {
    let Some((earliest, latest)) = replay.span else {
        return writeln!(out, "No requests.");
    };
    let requests = replay.clients.values().map(|client| client.requests).sum();
    let lasted = SignedDuration::from_millis(latest.saturating_sub(earliest) / 1_000_000);
    writeln!(
        out,
        "{} requests of {} clients in {lasted:#}, from {} to {}",
        HumanCount(requests),
        count(replay.clients.len()),
        utc(earliest, 0),
        utc(latest, 0),
    )
}

/// The table of the algorithms.
fn algorithms(replay: &Replay) -> Table {
    let mut table = table(&[
        "algorithm",
        "decisions",
        "admitted",
        "refused",
        "refused %",
        "clients refused",
        "ns/decision",
    ]);
    for (index, lane) in replay.lanes.iter().enumerate() {
        let decisions = lane.admitted + lane.refused;
        let clients = replay.clients.values().filter(|client| client.refused[index] > 0).count();
        table.add_row([
            lane.name.to_owned(),
            HumanCount(decisions).to_string(),
            HumanCount(lane.admitted).to_string(),
            HumanCount(lane.refused).to_string(),
            percent(lane.refused, decisions),
            count(clients).to_string(),
            nanoseconds_each(lane, decisions),
        ]);
    }
    aligned(table, 1)
}

/// The table of the clients that each algorithm refused most.
fn worst_clients(replay: &Replay) -> Table {
    let mut table = table(&["algorithm", "client", "requests", "refused", "refused %"]);
    for (index, lane) in replay.lanes.iter().enumerate() {
        let mut refused: Vec<_> =
            replay.clients.iter().filter(|(_, client)| client.refused[index] > 0).collect();
        refused.sort_unstable_by_key(|(name, client)| (Reverse(client.refused[index]), *name));
        refused.truncate(WORST);
        if refused.is_empty() {
            table.add_row([lane.name, "none"]);
        }
        for (rank, (name, client)) in refused.into_iter().enumerate() {
            table.add_row([
                if rank == 0 { lane.name.to_owned() } else { String::new() },
                name.escape_debug().to_string(),
                HumanCount(client.requests).to_string(),
                HumanCount(client.refused[index]).to_string(),
                percent(client.refused[index], client.requests),
            ]);
        }
    }
    aligned(table, 2)
}

/// The table of the lines.
fn lines(replay: &Replay, counts: Counts) -> Table {
    let mut table = table(&["read", "blank", "torn", "foreign", "out of order", "answered 429"]);
    let numbers = [
        counts.lines,
        counts.blank,
        counts.torn,
        counts.foreign,
        replay.out_of_order,
        replay.refused_by_server,
    ];
    table.add_row(numbers.map(|number| HumanCount(number).to_string()));
    aligned(table, 0)
}

/// A table with a header and no rows yet.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header.iter().copied());
    table
}

/// The table with its columns aligned: those of words to the left, the numbers after them right.
fn aligned(mut table: Table, words: usize) -> Table {
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A share as a percentage with one decimal.
fn percent(part: u64, whole: u64) -> String {
    let thousandths = (part * 1000).checked_div(whole).unwrap_or(0);
    format!("{}.{}", thousandths / 10, thousandths % 10)
}

/// How long a decision of the lane took on average.
fn nanoseconds_each(lane: &Lane, decisions: u64) -> String {
    let each = lane.spent.as_nanos().checked_div(u128::from(decisions));
    each.map_or_else(|| "-".to_owned(), |each| each.to_string())
}

/// A number of things in memory, with separators between the thousands.
fn count(number: usize) -> HumanCount {
    HumanCount(number as u64)
}

/// A time in nanoseconds since the epoch, written out with so many digits after the point.
fn utc(time: i64, digits: usize) -> String {
    Timestamp::from_nanosecond(i128::from(time))
        .map_or_else(|_| format!("{time} ns"), |time| format!("{time:.digits$}"))
}
