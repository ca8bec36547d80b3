//! Runs cases from files, one JSON object a line, and compares every step with what it expects.
//!
//! ```text
//! cargo run --release --example scenarios -- tests/data/scenarios.jsonl
//! ```
//!
//! Prints each step that fails with what was expected and what came, and ends with a line
//! `N passed, N failed, N unsupported`. Exits with 1 if a case failed, with 2 if a file could not
//! be read.

#![allow(unreachable_pub, reason = "the modules of a program")]

#[path = "../tests/it/scenario.rs"]
mod scenario;

use std::process::ExitCode;

use scenario::Verdict;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: scenarios FILE...");
        return ExitCode::from(2);
    }
    let (mut passed, mut failed, mut unsupported) = (0, 0, 0);
    for file in &files {
        let cases = match scenario::read(file) {
            Ok(cases) => cases,
            Err(error) => {
                eprintln!("{file}: {error}");
                return ExitCode::from(2);
            }
        };
        for case in cases {
            match scenario::run(&case) {
                Verdict::Passed => passed += 1,
                Verdict::Unsupported => unsupported += 1,
                Verdict::Failed(lines) => {
                    failed += 1;
                    println!("{} ({}) failed:", case.id, case.algorithm);
                    lines.iter().for_each(|line| println!("    {line}"));
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {unsupported} unsupported");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
