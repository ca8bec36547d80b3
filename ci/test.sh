#!/usr/bin/env bash
# Every check that must pass, in the order in which it is cheapest to fail. Run from anywhere.
set -euo pipefail
cd "$(dirname "$0")/.."

# What would change the engine or lower the models' bounds.
unset TOLLGATE_MUTANT LOOM_MAX_PREEMPTIONS

# Everything is built once: without what helps to build it again, or to debug it.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=0

step() { printf '\n== %s (after %s s)\n' "$*" "$SECONDS"; }

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --locked --all-targets -- -D warnings
cargo clippy --locked --all-targets --all-features -- -D warnings
cargo check --locked --features tower

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features

step "unit, property and table tests"
cargo test --locked --release --all-features --lib --tests --examples

step "documentation tests"
cargo test --locked --release --all-features --doc

step "examples"
cargo run --locked --release --quiet --all-features --example quickstart
cargo run --locked --release --quiet --all-features --example scenarios -- tests/data/scenarios.jsonl
cargo run --locked --release --quiet --all-features --example compose
cargo run --locked --release --quiet --all-features --example settle
cargo run --locked --release --quiet --all-features --example hot
cargo run --locked --release --quiet --all-features --example waiting
cargo run --locked --release --quiet --all-features --example waiting_async
cargo run --locked --release --quiet --all-features --example replay -- --verify --requests 50000
cargo run --locked --release --quiet --all-features --example replay -- --requests 1000000

cargo run --locked --release --quiet --all-features --example same_burst -- target/algorithms.svg
cmp target/algorithms.svg docs/algorithms.svg || {
    echo "docs/algorithms.svg is not what the example draws: run it, and look at the plot" >&2
    exit 1
}

step "benches compile and run once"
cargo bench --locked --all-features -- --test

step "models"
ci/loom.sh repaired

step "models on loom as it is published, the short part"
LOOM_MAX_PREEMPTIONS=1 ci/loom.sh published

step "mutants of the engine that the models must kill"
ci/loom.sh mutants

step "threads that stop inside a call"
ci/stalls.sh

step "random schedules of many threads"
ci/shuttle.sh

step "fuzz targets on the seeds (ci/fuzz.sh SECONDS goes on from there)"
(cd fuzz && cargo fmt --check)
fuzz() { cargo run --locked --release --quiet --manifest-path fuzz/Cargo.toml --bin "$@"; }
fuzz seeds -- fuzz/corpus
for target in limiter keyed change compose access_log; do
    fuzz "$target" -- -runs=0 "fuzz/corpus/$target" 2>&1 | tail -n 1
done

step "races under Miri, where there is a nightly toolchain"
ci/sanitize.sh --brief miri 2

step "the comparison compiles"
cargo check --locked --manifest-path benches/compare/Cargo.toml

step "instructions of a decision, where there is valgrind"
(cd benches/instructions && cargo fmt --check)
cargo clippy --locked --all-targets --manifest-path benches/instructions/Cargo.toml -- -D warnings
ci/count.sh
