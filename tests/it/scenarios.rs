//! The cases in `tests/data`: none may fail, and what is unsupported is said.

use crate::scenario::{self, Verdict};

#[test]
fn no_case_fails() {
    let cases = scenario::read("tests/data/scenarios.jsonl").unwrap();
    let mut passed = 0;
    for case in cases {
        match scenario::run(&case) {
            Verdict::Passed => passed += 1,
            Verdict::Unsupported => {
                assert_eq!(case.algorithm, "multi", "{} unsupported", case.id);
            }
            Verdict::Failed(lines) => panic!("{}: {}", case.id, lines.join("; ")),
        }
    }
    assert!(passed >= 74, "{passed}");
}
