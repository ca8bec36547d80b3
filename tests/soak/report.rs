//! What the run has covered, in tables, and what is wrong with it.

use std::time::Duration;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle, presets};
use hdrhistogram::Histogram;
use indicatif::HumanCount;

use crate::plan::{FREE, SEGMENTS, SERIAL, THREADS};
use crate::run::{Ended, Outcome};
use crate::tally::Times;

/// Distinct keys in half an hour.
const KEYS_IN_HALF_AN_HOUR: f64 = 1e8;

/// No lines but one under the header.
const STYLE: TableStyle =
    presets::NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// Prints everything.
pub fn print(outcomes: &[Outcome]) {
    println!("\n{THREADS} threads, {} watched keys\n", SERIAL + FREE);
    println!("{}\n", work(outcomes).trim_fmt());
    println!("{}\n", faults(outcomes).trim_fmt());
    println!("{}\n", sizes(outcomes).trim_fmt());
    println!("{}", times(outcomes).trim_fmt());
    println!(
        "Times are nanoseconds of one decision each. By the wall clock they include what the \
         thread waited\nfor a processor, as {THREADS} threads share those of this machine; by its \
         own CPU time they do not,\nand include the reading of that clock, a system call.\n"
    );
    for fault in outcomes.iter().flat_map(|outcome| &outcome.faults) {
        println!("{fault}\n");
    }
}

fn work(outcomes: &[Outcome]) -> Table {
    let mut table = table(&[
        "segment",
        "seconds",
        "distinct keys",
        "decisions",
        "a second",
        "judged",
        "quota changes",
        "clock steps",
        "reclaimed",
    ]);
    let row = |name: &str, seconds: f64, sums: [u64; 6]| {
        let [keys, decisions, judged, changes, steps, reclaimed] = sums;
        let rate = (decisions as f64 / seconds.max(1e-3)) as u64;
        let figures = [keys, decisions, rate, judged, changes, steps, reclaimed].map(count);
        let mut row = vec![name.to_owned(), format!("{seconds:.1}")];
        row.extend(figures);
        row
    };
    let sums = |one: &Outcome| {
        [one.keys, one.decisions, one.judged, one.changes, one.clock_steps, one.stats.reclaimed]
    };
    let (mut seconds, mut total) = (0.0, [0; 6]);
    for outcome in outcomes {
        let (lasted, sums) = (outcome.lasted.as_secs_f64(), sums(outcome));
        seconds += lasted;
        total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        table.add_row(row(outcome.segment.name, lasted, sums));
    }
    table.add_row(row("all", seconds, total));
    table
}

fn faults(outcomes: &[Outcome]) -> Table {
    let mut table = table(&[
        "segment",
        "when full",
        "over-admissions",
        "wrong refusals",
        "wrong figures",
        "refused full",
        "evicted",
    ]);
    for one in outcomes {
        let overflow = format!("{:?}", one.segment.overflow);
        let mut row = vec![one.segment.name.to_owned(), overflow];
        row.extend(
            [
                one.over_admissions,
                one.wrong_refusals,
                one.wrong_figures,
                one.stats.refused_full,
                one.stats.evicted,
            ]
            .map(count),
        );
        table.add_row(row);
    }
    table
}

fn sizes(outcomes: &[Outcome]) -> Table {
    let mut table = table(&["segment", "resident at start", "peak", "end (KiB)"]);
    for one in outcomes {
        let sizes = one.sizes;
        let mut row = vec![one.segment.name.to_owned()];
        row.extend([sizes.start, sizes.peak, sizes.end].map(|bytes| count(bytes / 1024)));
        table.add_row(row);
    }
    table
}

fn times(outcomes: &[Outcome]) -> Table {
    let mut table =
        table(&["segment", "key", "clock", "decisions", "p50", "p99", "p99.9", "max (ns)"]);
    let mut all = Times::default();
    for one in outcomes {
        add_times(&mut table, one.segment.name, &one.times);
        all.add(&one.times);
    }
    add_times(&mut table, "all", &all);
    for column in table.column_iter_mut().take(3) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}

fn add_times(table: &mut Table, segment: &str, times: &Times) {
    let Times { new, known, new_cpu } = times;
    let rows: [(&str, &str, &Histogram<u64>); 3] =
        [("new", "wall", new), ("known", "wall", known), ("new", "thread CPU", new_cpu)];
    for (key, clock, times) in rows {
        let mut row = vec![segment.to_owned(), key.to_owned(), clock.to_owned()];
        row.push(count(times.len()));
        row.extend([0.5, 0.99, 0.999].map(|at| count(times.value_at_quantile(at))));
        row.push(count(times.max()));
        table.add_row(row);
    }
}

/// All that was asked and not found so; nothing if the run passes.
pub fn complaints(outcomes: &[Outcome], whole: Duration) -> Vec<String> {
    let mut complaints: Vec<String> = outcomes.iter().flat_map(complaints_of).collect();
    if outcomes.len() < SEGMENTS.len() {
        complaints.push(format!("{} of {} segments were run", outcomes.len(), SEGMENTS.len()));
    }
    let keys: u64 = outcomes.iter().map(|one| one.keys).sum();
    let wanted = KEYS_IN_HALF_AN_HOUR * whole.as_secs_f64() / 1_800.0;
    // Without optimisation the reference takes fifty times longer.
    let wanted = if cfg!(debug_assertions) { wanted / 50.0 } else { wanted } as u64;
    if keys < wanted {
        complaints.push(format!("{} distinct keys, of {} wanted", count(keys), count(wanted)));
    }
    let changes: u64 = outcomes.iter().map(|one| one.changes).sum();
    if changes < whole.as_secs() * 9 / 10 {
        complaints.push(format!("{changes} changes of quota, of one a second"));
    }
    complaints
}

fn complaints_of(one: &Outcome) -> Vec<String> {
    let stats = &one.stats;
    let decided = stats.admitted + stats.refused + stats.refused_full;
    let checks = [
        (one.ended == Ended::InTime, format!("{:?}", one.ended)),
        (one.over_admissions == 0, format!("{} over-admissions", one.over_admissions)),
        (one.wrong_refusals == 0, format!("{} wrong refusals", one.wrong_refusals)),
        (one.wrong_figures == 0, format!("{} wrong figures", one.wrong_figures)),
        (stats.refused_full == 0, format!("{} refused for fullness", stats.refused_full)),
        (stats.evicted == 0, format!("{} evicted", stats.evicted)),
        // Without optimisation it takes longer to use up the cells that are free.
        (stats.reclaimed > 0 || cfg!(debug_assertions), "nothing was reclaimed".to_owned()),
        (one.changes > 0, "the quota never changed".to_owned()),
        (one.clock_steps > 0, "no clock was set".to_owned()),
        (
            (stats.admitted, decided) == (one.admitted, one.decisions),
            format!("{} admissions of {} decisions, and {stats:?}", one.admitted, one.decisions),
        ),
        (one.sizes.is_flat(), format!("the resident size grew: {:?}", one.sizes)),
    ];
    let wrong = checks.into_iter().filter(|(is_right, _)| !is_right);
    wrong.map(|(_, complaint)| format!("{}: {complaint}", one.segment.name)).collect()
}
