#!/usr/bin/env bash
#
# Runs the tests in which real threads stop inside a call, or are killed there:
# loom-tests/tests/stalls.rs, on the table as it is in production.
#
# The engine is built with a private cfg that lets a test stop a thread at a named
# step; src/probe.rs has it. Needs nothing but cargo.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"

# Flags that differ from those of every other build, so a folder of its own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/stalls
export RUSTFLAGS="--cfg tollgate_stops -C debug-assertions"
unset CARGO_ENCODED_RUSTFLAGS

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'echo "stalls: FAILED: interrupted" >&2; exit 1' INT TERM HUP
cargo test --release --locked --manifest-path loom-tests/Cargo.toml --test stalls 2>&1 | tee "$log"
# Without the cfg the file is empty, and cargo content with it.
tests=$(grep -c '^#\[test\]' loom-tests/tests/stalls.rs)
if [[ $(<"$log") != *"test result: ok. $tests passed"* ]]; then
    echo "stalls: FAILED: not all of the $tests tests were run" >&2
    exit 1
fi
