#!/usr/bin/env bash
#
# Runs the engine's own code, and races of real threads on it, under checkers.
#
#   ci/sanitize.sh [--brief] [--require] [miri|thread|address|all] [SEEDS]
#
#   miri       Miri: undefined behaviour and leaks in the unit tests and in
#              tests/weak, then tests/weak and histories of tests/it under so
#              many seeds (64 unless another number is given)
#   thread     ThreadSanitizer, with a standard library that is instrumented too
#   address    AddressSanitizer, which looks for leaks as well
#   all        one after the other (the default)
#   --brief    only the unit tests and tests/weak, without what tests/it needs,
#              and four seeds unless another number is given
#   --require  a checker that this machine lacks is a failure
#
# A seed decides where threads are interrupted and which of the values that its
# ordering allows a load returns. What a seed finds it finds again:
# `MIRIFLAGS=-Zmiri-seed=N` and the flags that are printed repeat it.
#
# None of them, nor loom, lets a load return a value that is stored only later
# (load buffering): for that there are only the reasons beside the orderings.
# ThreadSanitizer knows no fences; there are none.
#
# Needs bash and rustup, by which it adds Miri and the source of the standard
# library to a nightly toolchain. Where those are missing it says what was not
# run, and goes on with the rest. A pass says how many tests it is made of.

set -uo pipefail

say() { printf '\n== %s\n' "$*"; }
usage() {
    echo "usage: ci/sanitize.sh [--brief] [--require] [miri|thread|address|all] [SEEDS]" >&2
    exit 2
}

brief=false
require=false
while [[ ${1:-} == --* ]]; do
    case $1 in
        --brief) brief=true ;;
        --require) require=true ;;
        *) usage ;;
    esac
    shift
done
mode=${1:-all}
seeds=${2:-$($brief && echo 4 || echo 64)}
[[ $# -le 2 && $mode =~ ^(miri|thread|address|all)$ && $seeds =~ ^[1-9][0-9]*$ ]] || usage

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root" || exit 1

# A target folder for each checker: their flags differ, and none should crowd
# the cache of the other builds.
build=${CARGO_TARGET_DIR:-$root/target}/sanitize
mkdir -p "$build" || exit 1
build=$(cd "$build" && pwd -P)

# The caller's flags would be added to the checkers', or take precedence.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS MIRIFLAGS
export RUST_BACKTRACE=1

host=$(rustc -vV 2>/dev/null | awk '$1 == "host:" { print $2 }')
passed=()
failed=()
missing=()

# The command that is under way, in a process group of its own, so that it ends
# when the script does.
job=
set -m

# Whatever ends the script ends it here, with all that is known so far.
summary() {
    local code=$? line
    trap - EXIT
    if [[ -n $job ]]; then kill -- "-$job" 2>/dev/null; fi
    say "sanitize: summary"
    for line in "${passed[@]}"; do echo "   passed: $line"; done
    for line in "${missing[@]}"; do echo "  NOT RUN: $line"; done
    for line in "${failed[@]}"; do echo "   FAILED: $line"; done
    [[ ${#passed[@]} -gt 0 ]] || echo "  nothing has passed"
    if [[ $code -ne 0 ]]; then
        echo "  INTERRUPTED: what is not named above was not run"
    elif [[ ${#failed[@]} -gt 0 ]]; then
        code=1
    elif [[ ${#missing[@]} -gt 0 ]] && $require; then
        code=1
    fi
    exit "$code"
}
trap summary EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Runs a command, and counts the tests that it says have passed: at least one in
# each of so many runs. A run without any, for instance because a filter matches
# nothing, has shown nothing.
run() {
    local name=$1 runs=$2 log=$build/log start=$SECONDS code good count
    shift 2
    say "$name"
    ("$@" 2>&1 | tee "$log") </dev/null &
    job=$!
    wait "$job"
    code=$?
    job=
    # Seeds run side by side, and cut each other's lines short; not this piece of them.
    read -r good count < <(grep -aoE '[1-9][0-9]* passed; 0 failed' "$log" |
        awk '{ good += 1; sum += $1 } END { print good + 0, sum + 0 }')
    if [[ $code -ne 0 ]]; then
        failed+=("$name")
    elif [[ $good -lt $runs ]]; then
        failed+=("$name: tests were run $good times, not $runs")
    else
        passed+=("$name: $count tests in $((SECONDS - start)) s")
    fi
}

# Whether the nightly toolchain has a component; adds it if it can be had.
has_component() {
    local installed="rustup component list --toolchain nightly --installed"
    $installed 2>/dev/null | grep -q "^$1" ||
        rustup component add --toolchain nightly "$1" >/dev/null 2>&1
}

# Whether a checker can be run: the rest are the components that it needs.
is_there() {
    local checker=$1 component
    shift
    if ! command -v rustup >/dev/null; then
        missing+=("$checker: rustup was not found")
        return 1
    fi
    if ! rustc +nightly --version >/dev/null 2>&1; then
        missing+=("$checker: there is no nightly toolchain (rustup toolchain install nightly)")
        return 1
    fi
    for component in "$@"; do
        if ! has_component "$component"; then
            missing+=("$checker: the nightly toolchain has no $component, and none can be added")
            return 1
        fi
    done
}

# Leaves in $lean a package of the same sources and of tests/weak, without what
# only other tests, examples and benches depend on: those take longer to build
# than the races take to run. The lock file is the same; cargo drops from the
# copy what the package does not need.
prepare_lean_package() {
    lean=$build/package
    mkdir -p "$lean" || exit 1
    ln -sfn "$root/src" "$lean/src"
    ln -sfn "$root/tests" "$lean/tests"
    ln -sfn "$root/README.md" "$lean/README.md"
    cp "$root/Cargo.lock" "$lean/Cargo.lock"
    awk '/^\[/ { drop = /^\[(dev-dependencies|\[bench\]|\[example\])/ } !drop' \
        "$root/Cargo.toml" >"$lean/Cargo.toml"
    printf '[workspace]\n' >>"$lean/Cargo.toml"
}

# Cargo in the folder of a package, with a checker's own folder for what it builds.
cargo_on() {
    local package=$1 folder=$2
    shift 2
    cd "$package" && CARGO_TARGET_DIR=$build/$folder cargo +nightly "$@"
}

# Miri knows neither a file of the kernel's clock nor a time of its own: the file
# is answered as one that is not there, and tests that need a clock are not among
# these.
miri_flags="-Zmiri-isolation-error=hide"

run_miri() {
    is_there miri miri rust-src || return
    # The races that one seed takes longest for are none of aliasing or of leaks.
    local few=()
    if $brief; then few=(-- count:: insert::two_first_calls_share); fi
    export MIRIFLAGS="$miri_flags -Zmiri-strict-provenance"
    run "miri, unit tests, all checks" 1 cargo_on "$lean" miri miri test --lib
    run "miri, small races, all checks" 1 \
        cargo_on "$lean" miri miri test --test weak "${few[@]}"

    # Half of the seeds interrupt often, so that threads go step by step; the others
    # seldom, so that one is stopped while another does all that it has to do.
    local half=$(((seeds + 1) / 2))
    run_seeds 0 "$half" 0.05
    if [[ $half -lt $seeds ]]; then run_seeds "$half" "$seeds" 0.002; fi
}

# Runs the seeds from one number on and before another, with threads that are
# interrupted at such a share of all blocks.
run_seeds() {
    local from=$1 to=$2 rate=$3
    # Only what differs between seeds. References and values were looked at above,
    # and to do so again would double the time; inlining halves it once more.
    local inline="-Zmir-opt-level=3 -Zinline-mir=yes"
    export MIRIFLAGS="$miri_flags $inline -Zmiri-disable-stacked-borrows \
-Zmiri-disable-validation -Zmiri-preemption-rate=$rate -Zmiri-many-seeds=$from..$to"
    export RUSTFLAGS="$inline -Zinline-mir-threshold=200 -Zinline-mir-hint-threshold=500"
    printf '\nRUSTFLAGS="%s"\nMIRIFLAGS="%s"\n' "$RUSTFLAGS" "$MIRIFLAGS"
    run "miri, small races, seeds from $from to $((to - 1))" $((to - from)) \
        cargo_on "$lean" seeds miri test --release --test weak
    # Of the histories those of two threads: to explain sixteen calls that all overlap, as
    # they do under Miri, is more than an interpreter can do.
    if ! $brief; then
        run "miri, histories, seeds from $from to $((to - 1))" $((to - from)) \
            cargo_on "$root" seeds miri test --locked --release --test it -- histories::two_threads
    fi
    unset MIRIFLAGS RUSTFLAGS
}

# A sanitizer of the compiler: its name, and what else cargo needs. Optimised,
# with the engine's own assertions.
run_sanitizer() {
    local name=$1
    shift
    export RUSTFLAGS="-Zsanitizer=$name -C debug-assertions"
    run "$name sanitizer, unit tests and small races" 2 \
        cargo_on "$lean" "$name" test --release --target "$host" "$@" --lib --test weak
    if ! $brief; then
        run "$name sanitizer, tests/it" 1 \
            cargo_on "$root" "$name" test --locked --release --target "$host" "$@" --test it
    fi
    unset RUSTFLAGS
}

run_thread() {
    is_there "thread sanitizer" rust-src || return
    run_sanitizer thread -Zbuild-std
}

run_address() {
    is_there "address sanitizer" || return
    run_sanitizer address
}

prepare_lean_package
if [[ $mode == miri || $mode == all ]]; then run_miri; fi
if [[ $mode == address || $mode == all ]]; then run_address; fi
if [[ $mode == thread || $mode == all ]]; then run_thread; fi
