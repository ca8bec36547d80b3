#!/usr/bin/env bash
#
# Runs one file of loom-tests/tests on an engine that is built with a private cfg.
#
#   ci/cfg-test.sh FILE CFG
#
# ci/stalls.sh and ci/shuttle.sh say what their files show. Needs nothing but cargo.

set -euo pipefail

name=$1 cfg=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"

# Flags that differ from those of every other build, so a folder of its own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}/$name
export RUSTFLAGS="--cfg $cfg -C debug-assertions"
unset CARGO_ENCODED_RUSTFLAGS

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'echo "$name: FAILED: interrupted" >&2; exit 1' INT TERM HUP
cargo test --release --locked --manifest-path loom-tests/Cargo.toml --test "$name" 2>&1 |
    tee "$log"
# Without the cfg the file is empty, and cargo content with it.
tests=$(grep -c '^#\[test\]' "loom-tests/tests/$name.rs")
if [[ $(<"$log") != *"test result: ok. $tests passed"* ]]; then
    echo "$name: FAILED: not all of the $tests tests were run" >&2
    exit 1
fi
