//! How far the run is: a line that moves on a terminal, and one every half minute elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::shared::Shared;
use crate::tally::get;

/// Between lines where there is no terminal.
const LINES: Duration = Duration::from_secs(30);

pub struct Progress {
    bar: Option<ProgressBar>,
    start: Instant,
    whole: Duration,
    told: Instant,
    /// Keys of the segments that are over.
    keys: u64,
}

impl Progress {
    pub fn new(whole: Duration) -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(whole.as_secs()), target);
            match ProgressStyle::with_template("{bar:30} {pos} of {len} s, {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        let now = Instant::now();
        Progress { bar, start: now, whole, told: now, keys: 0 }
    }

    /// Tells how far it is, if it is time to.
    pub fn tick(&mut self, shared: &Shared) {
        let tally = &shared.tally;
        let told = || {
            format!(
                "{}: {} distinct keys, {} changes of quota, {} faults",
                shared.segment.name,
                HumanCount(self.keys + get(&tally.keys)),
                get(&tally.changes),
                tally.faults(),
            )
        };
        let elapsed = self.start.elapsed();
        if let Some(bar) = &self.bar {
            bar.set_position(elapsed.min(self.whole).as_secs());
            bar.set_message(told());
        } else if self.told.elapsed() >= LINES {
            println!("{} of {} s, {}", elapsed.as_secs(), self.whole.as_secs(), told());
            self.told = Instant::now();
        }
    }

    /// A segment is over.
    pub fn end_segment(&mut self, keys: u64) {
        self.keys += keys;
    }

    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
