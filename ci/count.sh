#!/usr/bin/env bash
#
# Counts the instructions of a decision, by workload, and holds them against the
# recorded ones.
#
#   ci/count.sh [--record] [--require]
#
#   --record   write benches/record/instructions.csv anew
#   --require  a machine without valgrind is a failure
#
# The workloads are those of benches/instructions/benches/decisions.rs. They run
# under callgrind by gungraun, whose runner is installed below target/ in a pinned
# version if it is not there. Other work on the machine changes no count.
#
# Fails if a workload has risen by more than 3 % over its record, has none, or was
# not run. Records of another compiler or another target are compared, but a rise
# over them is only warned about.
#
# Needs bash, cargo with a network or a filled registry cache, and valgrind. Where
# that is missing it says what was not shown, and passes nothing.

set -euo pipefail

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf '\ncount: FAILED: %s\n' "$*" >&2; exit 1; }

# The same as that of gungraun in benches/instructions/Cargo.toml.
runner_version=0.20.0

report=()
require=false
while [[ $# -gt 0 ]]; do
    case $1 in
        --record) report+=(--record) ;;
        --require) require=true ;;
        *) echo "usage: ci/count.sh [--record] [--require]" >&2; exit 2 ;;
    esac
    shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
records=$PWD/benches/record/instructions.csv
build=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$build"
build=$(cd "$build" && pwd -P)

if ! command -v valgrind >/dev/null; then
    what="there is no valgrind: no instructions were counted, and no rise would have been seen"
    if $require || [[ ${#report[@]} -gt 0 ]]; then die "$what"; fi
    say "count: NOT RUN: $what"
    exit 0
fi

# The caller's flags would change the code, or gungraun's way to run it.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS "${!GUNGRAUN_@}"

# Not optimised, so that it is built sooner: what it runs is not affected.
install_runner() {
    local wanted="gungraun-runner $runner_version" listed
    listed=$(cargo install --list --root "$build/tools" 2>/dev/null) || listed=
    if [[ $listed != *"gungraun-runner v$runner_version:"* ]]; then
        say "installing $wanted"
        CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --locked --root "$build/tools" \
            gungraun-runner --version "$runner_version" >&2 || die "$wanted cannot be installed"
    fi
    export GUNGRAUN_RUNNER=$build/tools/bin/gungraun-runner
    [[ -x $GUNGRAUN_RUNNER ]] || die "$GUNGRAUN_RUNNER is not there"
}

# The path of the runner is compiled into the benches.
install_runner
export CARGO_TARGET_DIR=$build
cd benches/instructions
say "building the workloads and the report"
cargo build --locked --release >&2 || die "the build of the report"
cargo bench --locked --bench decisions --no-run >&2 || die "the build of the workloads"

say "counting"
summaries=$build/instructions.json
log=$build/instructions.log
cargo bench --locked --quiet --bench decisions -- --output-format=json >"$summaries" 2>"$log" ||
    { cat "$log" >&2; die "a workload"; }

# The record is of what is built, not of what was last recorded.
commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || commit=unknown
git diff --quiet HEAD -- ../../src ../../Cargo.toml ../../Cargo.lock . 2>/dev/null || commit+=+
rustc=$(rustc -vV | awk '$1 == "release:" { release = $2 } $1 == "host:" { host = $2 }
    END { print release " " host }')

"$build/release/tollgate-instructions" --rustc "$rustc" --commit "$commit" \
    ${report[@]+"${report[@]}"} "$records" <"$summaries" ||
    die "see above (ci/count.sh --record takes the counts as they are)"
say "count: $(wc -l <"$summaries") workloads were counted"
