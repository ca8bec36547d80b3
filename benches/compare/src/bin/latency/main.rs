//! How long single decisions take, and the longest of them: tollgate beside governor.
//!
//! ```text
//! cargo run --release --manifest-path benches/compare/Cargo.toml --bin latency -- [OPTION...]
//!
//!     --keys N       keys of the large table; 10 000 000 unless given, at least 1000
//!     --runs N       how often each case is run; 5 unless given
//!     --quick        small and short, to see that it runs
//!     --json FILE    writes all rows there, too
//! ```
//!
//! Each case is timed by the wall clock and, around that, by the thread's own CPU time, which does
//! not tell of the time when other threads had the processor. Nothing is subtracted; what the
//! timers cost by themselves is the first case. All calls are admitted.

mod limiters;
mod record;
mod scenarios;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle, presets};
use lexopt::prelude::*;

use record::Row;

/// No lines but one under the header.
const STYLE: TableStyle =
    presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// How much is run.
#[derive(Debug)]
struct Options {
    keys: u64,
    runs: usize,
    /// Of one run of a case that has no end of its own.
    lasting: Duration,
    json: Option<PathBuf>,
}

fn options() -> Result<Options, lexopt::Error> {
    let (mut keys, mut runs, mut json, mut quick) = (None, None, None, false);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("keys") => keys = Some(arguments.value()?.parse()?),
            Long("runs") => runs = Some(arguments.value()?.parse()?),
            Long("quick") => quick = true,
            Long("json") => json = Some(arguments.value()?.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    let (most, often, lasting) = if quick { (200_000, 2, 200) } else { (10_000_000, 5, 1_000) };
    let (keys, runs) = (keys.unwrap_or(most), runs.unwrap_or(often));
    // Fewer keys would run out of tokens.
    if keys < 1_000 || runs == 0 {
        return Err("--keys is at least 1000, --runs at least 1".into());
    }
    Ok(Options { keys, runs, lasting: Duration::from_millis(lasting), json })
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let cases = [
        scenarios::timers,
        scenarios::fill,
        scenarios::sweep,
        scenarios::change,
        scenarios::preempted,
    ];
    let rows: Vec<Row> = cases.iter().flat_map(|case| case(&options)).collect();
    println!("{}", table(&rows).trim_fmt());
    println!(
        "\nNanoseconds of one decision, to a hundredth. Of {} runs all are in the percentiles and \
         in the max; the least max\nis that of the run whose max was least. Beside: sweeps, or \
         changes of quota, that were made meanwhile.",
        options.runs
    );
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&rows)? + "\n")?;
    }
    Ok(())
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    let left = ["case", "who", "clock"];
    let right = ["keys", "threads", "beside", "calls"];
    let times = ["p50", "p99", "p99.9", "p99.99", "max", "least max"];
    table.load_style(STYLE).set_header(left.iter().chain(&right).chain(&times));
    for column in table.column_iter_mut().skip(left.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        let names = [row.case, row.who, row.clock].map(str::to_owned);
        let counts = [row.keys, row.threads, row.beside, row.calls];
        let times = [row.p50, row.p99, row.p99_9, row.p99_99, row.max, row.least_max];
        let figures = counts.into_iter().chain(times).map(|figure| figure.to_string());
        table.add_row(names.into_iter().chain(figures));
    }
    table
}
