//! What the numbers were measured on.

use std::fs::read_to_string;
use std::process::Command;
use std::thread::available_parallelism;

use serde::Serialize;

/// The machine and the build.
#[derive(Serialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    /// How busy it was at the start: processes that ran or wanted to, over a minute.
    pub load: String,
    pub clock_source: String,
    pub huge_pages: String,
    pub commit: String,
    pub rustc: String,
}

const UNKNOWN: &str = "unknown";

impl Machine {
    pub fn look() -> Machine {
        let said = |path: &str| read_to_string(path).unwrap_or_else(|_| UNKNOWN.to_owned());
        let clock = said("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let pages = said("/sys/kernel/mm/transparent_hugepage/enabled");
        let load = said("/proc/loadavg");
        Machine {
            processor: processor(&said("/proc/cpuinfo")),
            cores: available_parallelism().map_or(1, std::num::NonZero::get),
            load: load.split(' ').next().unwrap_or(UNKNOWN).to_owned(),
            clock_source: clock.trim().to_owned(),
            huge_pages: chosen(&pages).to_owned(),
            commit: commit(),
            rustc: output("rustc", &["--version"]).unwrap_or_else(|| UNKNOWN.to_owned()),
        }
    }

    /// One line.
    pub fn headline(&self) -> String {
        let counter = match self.clock_source.as_str() {
            "tsc" => "time-stamp counter in use".to_owned(),
            other => format!("no time-stamp counter (clock source {other})"),
        };
        format!(
            "{}, cores: {}, load {}; {counter}; huge pages: {}; {}; commit {}",
            self.processor, self.cores, self.load, self.huge_pages, self.rustc, self.commit
        )
    }
}

fn processor(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    model.unwrap_or(std::env::consts::ARCH).to_owned()
}

/// The word in brackets.
fn chosen(choices: &str) -> &str {
    let word = choices.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    word.map_or(UNKNOWN, |(word, _)| word)
}

/// The commit, and whether there is more than it says.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let mut all = vec!["-C", env!("CARGO_MANIFEST_DIR")];
        all.extend(arguments);
        output("git", &all)
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return UNKNOWN.to_owned();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no", ":/"]);
    let is_changed = changed.is_none_or(|changed| !changed.is_empty());
    format!("{commit}{}", if is_changed { " with changes" } else { "" })
}

/// What a program says, if it can be run and goes well.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
