//! How far the run is, on a terminal, once it has taken two seconds.

use std::cell::Cell;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Nothing is shown before.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar that is drawn between slices only: it has no thread that would take time from them.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: Cell<bool>,
}

impl Progress {
    pub fn new(steps: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        let template = "{bar:40} {pos} of {len}  {msg}";
        let bar = match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Progress { bar, start: Instant::now(), shown: Cell::new(false) }
    }

    /// Names what is measured now.
    pub fn say(&self, workload: &'static str) {
        self.bar.set_message(workload);
    }

    pub fn step(&self) {
        if !self.shown.get() && self.start.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown.set(true);
        }
        self.bar.inc(1);
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
