#!/usr/bin/env bash
#
# Runs random schedules of many threads: loom-tests/tests/random.rs, on the small
# table of the models.
#
#   ci/shuttle.sh [SCHEDULES]        (default: 500)
#
# SCHEDULES is the number for each test, algorithm and kind of scheduler. The seed
# is fixed, so a larger number repeats what a smaller one did and goes on from
# there. With TOLLGATE_MUTANT set to a part of a protocol from
# loom-tests/mutants.txt the engine is broken there, and a test should fail; the
# mutants that weaken an ordering have no effect here.
#
# Needs nothing but cargo.

set -euo pipefail

if [[ $# -gt 1 || ! ${1:-500} =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: ci/shuttle.sh [SCHEDULES]" >&2
    exit 2
fi
export TOLLGATE_SCHEDULES=${1:-500}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"

# Flags that differ from those of every other build, so a folder of its own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/shuttle
export RUSTFLAGS="--cfg tollgate_shuttle -C debug-assertions"
unset CARGO_ENCODED_RUSTFLAGS

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --release --locked --manifest-path loom-tests/Cargo.toml --test random 2>&1 | tee "$log"
# Without the cfg the file is empty, and cargo content with it.
if [[ $(<"$log") == *"test result: ok. 0 passed"* ]]; then
    echo "shuttle: FAILED: no test was run" >&2
    exit 1
fi
