//! The cases in `tests/data`: all must pass.

use crate::scenario::{self, Verdict};

#[test]
fn every_case_passes() {
    let cases = scenario::read("tests/data/scenarios.jsonl").unwrap();
    let mut passed = 0;
    for case in cases {
        match scenario::run(&case) {
            Verdict::Passed => passed += 1,
            Verdict::Unsupported => panic!("{} unsupported", case.id),
            Verdict::Failed(lines) => panic!("{}: {}", case.id, lines.join("; ")),
        }
    }
    assert!(passed >= 78, "{passed}");
}
