#!/usr/bin/env bash
#
# Fuzzes the engine against the reference, and the replay example's log parsing.
#
#   ci/fuzz.sh SECONDS [TARGET...]        (default: all targets)
#
#   limiter      one state under any quotas, operations and times
#   keyed        many keys in a table that is too small for them
#   change       quotas that change at any moment
#   compose      permits, debts, bans and calls to several limits
#   access_log   log parsing, on any bytes
#
# Each target runs for SECONDS, as many at once as there are cores. It starts from
# the seeds that fuzz/seeds makes of the scenarios, and from what earlier runs have
# left in fuzz/corpus.
#
# The targets are built by cargo-fuzz, which is installed below target/ in a pinned
# version if it is not there: on a nightly toolchain with coverage and
# AddressSanitizer; without one with coverage alone, and that is said. Without the
# sanitizer runs are some ten times faster, and see no misuse of memory:
# TOLLGATE_FUZZ_SANITIZER=none asks for that.
#
# A line per target says what was done. The run fails if a target has a finding (a
# failed comparison, a crash, a timeout, too much memory), if it got too little time
# or too few executions to have shown anything, or if it was interrupted.
#
# Needs bash 4, cargo with a network or a filled registry cache, and a C++ compiler.

set -euo pipefail

say() { printf '\n== %s\n' "$*"; }
die() { printf '\nfuzz: FAILED: %s\n' "$*" >&2; exit 1; }

cargo_fuzz_version=0.13.1
all=(limiter keyed change compose access_log)

# Below this many executions a second a run has shown next to nothing, however busy
# the machine was.
least_per_second=3

# One input may take this long, and a target hold this much, before it is a finding.
seconds_per_input=25
megabytes=2048

seconds=${1:-}
targets=("${@:2}")
if [[ ! $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo "usage: ci/fuzz.sh SECONDS [TARGET...]" >&2
    exit 2
fi
if [[ ${#targets[@]} -eq 0 ]]; then targets=("${all[@]}"); fi
for target in "${targets[@]}"; do
    [[ " ${all[*]} " == *" $target "* ]] || die "there is no target '$target', but: ${all[*]}"
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$build"
build=$(cd "$build" && pwd -P)
logs=$build/fuzz-logs
mkdir -p "$logs"

# Every build and every target runs beside the script, so that an interruption is
# heard at once. What it means is said where the targets are waited for.
interrupted=
running=()
interrupt() {
    interrupted=yes
    if [[ ${#running[@]} -gt 0 ]]; then kill -TERM "${running[@]}" 2>/dev/null || true; fi
}
trap interrupt INT TERM

# Runs a command to its end.
await() {
    local status=0
    "$@" &
    running=("$!")
    wait "$!" || status=$?
    running=()
    [[ -z $interrupted ]] || die "interrupted before any target ran"
    return "$status"
}

# The tool itself is built by whichever toolchain is the default.
install_cargo_fuzz() {
    local wanted="cargo-fuzz $cargo_fuzz_version"
    PATH=$build/tools/bin:$PATH
    if [[ $(cargo-fuzz --version 2>/dev/null) != "$wanted" ]]; then
        say "installing $wanted"
        await cargo install --quiet --locked --root "$build/tools" \
            cargo-fuzz --version "$cargo_fuzz_version" || die "$wanted cannot be installed"
    fi
}

# Sets $kind and $binaries.
build_targets() {
    local host sanitizer=address toolchain=() wish=${TOLLGATE_FUZZ_SANITIZER:-address}
    [[ $wish =~ ^(address|none)$ ]] || die "TOLLGATE_FUZZ_SANITIZER is '$wish', not address or none"
    kind="coverage and AddressSanitizer"
    # Rustup must not download what is not there.
    export RUSTUP_AUTO_INSTALL=0
    if [[ $wish == none ]]; then
        sanitizer=none kind="coverage and NO sanitizer, as asked"
    elif rustc +nightly --version >/dev/null 2>&1; then
        toolchain=(+nightly)
    elif [[ $(rustc --version) != *nightly* ]]; then
        sanitizer=none kind="coverage and NO sanitizer, as there is no nightly toolchain"
    fi
    # Cargo-fuzz does not pass `--locked` on, so whether the lock file holds is asked before.
    cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null ||
        die "fuzz/Cargo.lock is out of date"
    install_cargo_fuzz
    say "building with $kind"
    host=$(rustc -vV | awk '$1 == "host:" { print $2 }')
    # A folder for each kind, or each would build all of it anew.
    await cargo ${toolchain[@]+"${toolchain[@]}"} fuzz build --sanitizer "$sanitizer" \
        --target "$host" --target-dir "$build/fuzz-$sanitizer" || die "the build"
    binaries=$build/fuzz-$sanitizer/$host/release
}

# Starts one target in the background; its process is "$!".
start() {
    local target=$1 flags=()
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    # A script is 120 bytes and 24 for each of 100 steps.
    flags=(-max_len=2520)
    if [[ $target == access_log ]]; then flags=(-max_len=8192); fi
    # The first option is cargo-fuzz's own; the second spares a sixth of the time, and looks for what
    # safe code cannot do.
    local asan=detect_odr_violation=0:detect_stack_use_after_return=0
    ASAN_OPTIONS=$asan "$binaries/$target" "fuzz/corpus/$target" \
        -max_total_time="$seconds" -timeout="$seconds_per_input" -rss_limit_mb="$megabytes" \
        -artifact_prefix="fuzz/artifacts/$target/" -print_final_stats=1 "${flags[@]}" \
        >"$logs/$target" 2>&1 &
}

# The last number after a word in a target's log, or a dash.
last() {
    local number
    number=$(grep -oE "$2 *[0-9]+" "$1" | tail -n 1 | grep -oE '[0-9]+$') || number=-
    printf '%s' "$number"
}

row() { printf '%-12s %12s %8s %10s %8s %8s  %s\n' "$@"; }

# Prints the line of a target that has ended; fails if it has not shown that all is well.
report() {
    local target=$1 status=$2 took=$3 log=$logs/$1
    local executions coverage corpus per_second=0 verdict=none failed=0 artifact
    executions=$(last "$log" 'stat::number_of_executed_units:')
    coverage=$(last "$log" 'cov:')
    corpus=$(last "$log" 'corp:')
    if [[ $executions != - && $took -gt 0 ]]; then per_second=$((executions / took)); fi
    artifact=$(grep -oE 'Test unit written to .*' "$log" | tail -n 1 | cut -d ' ' -f 5) || true
    case $status in
        0) ;;
        70) verdict="a TIMEOUT" ;;
        71) verdict="TOO MUCH MEMORY" ;;
        72) verdict="none, INTERRUPTED" ;;
        *) verdict="a FINDING" ;;
    esac
    # LibFuzzer counts whole seconds.
    if [[ $status -eq 0 && ($executions == - || $took -lt $((seconds - 1)) ||
        $executions -lt $((least_per_second * seconds))) ]]; then
        verdict="none, STARVED"
    elif [[ $status -eq 0 && $coverage == - ]]; then
        verdict="none, NO COVERAGE"
    fi
    row "$target" "$executions" "$per_second" "$coverage" "$corpus" "$took" "$verdict"
    if [[ $verdict != none ]]; then failed=1; fi
    if [[ $status -ne 0 && $status -ne 72 ]]; then
        grep -m 1 -A 3 'panicked at' "$log" | cut -c 1-300 | sed 's/^/    /' || true
        printf '    log: %s\n' "$log"
        if [[ -n $artifact ]]; then
            printf '    input: %s\n' "$artifact"
            printf '    again: %s %s\n' "${binaries#"$PWD"/}/$target" "$artifact"
        fi
    fi
    return "$failed"
}

# Runs all targets, as many at once as there are cores.
run_targets() {
    local cores waiting=("${targets[@]}") target pid status
    local -A started=() name=()
    cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
    failed=()
    while [[ ${#waiting[@]} -gt 0 || ${#name[@]} -gt 0 ]]; do
        while [[ -z $interrupted && ${#waiting[@]} -gt 0 && ${#name[@]} -lt $cores ]]; do
            start "${waiting[0]}"
            name[$!]=${waiting[0]} started[$!]=$SECONDS
            waiting=("${waiting[@]:1}")
            running=("${!name[@]}")
        done
        if [[ ${#name[@]} -eq 0 ]]; then break; fi
        sleep 1
        for pid in "${!name[@]}"; do
            if kill -0 "$pid" 2>/dev/null; then continue; fi
            status=0
            wait "$pid" || status=$?
            target=${name[$pid]}
            report "$target" "$status" "$((SECONDS - started[$pid]))" || failed+=("$target")
            unset "name[$pid]"
            running=("${!name[@]}")
        done
    done
    for target in ${waiting[@]+"${waiting[@]}"}; do
        row "$target" - - - - 0 "none, NOT STARTED"
    done
}

build_targets
await "$binaries/seeds" fuzz/corpus || die "the seeds cannot be written"

say "fuzzing for $seconds s each, with $kind"
row target executions exec/s coverage corpus seconds findings
run_targets
[[ -z $interrupted ]] || { printf '\nfuzz: INTERRUPTED\n' >&2; exit 130; }
[[ ${#failed[@]} -eq 0 ]] || die "${failed[*]}"
say "fuzz: ${#targets[@]} targets ran for $seconds s each without a finding, with $kind"
