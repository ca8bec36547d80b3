#!/usr/bin/env bash
#
# Runs the soak for some minutes: eight threads, new keys without end, a thousand
# that are watched, against the reference.
#
#   ci/soak.sh MINUTES [--seed N]        (30 for a hundred million distinct keys)
#
# Passes only if all of it was covered and no answer was wrong; tests/soak/main.rs
# says what is held against what.
#
# Needs bash and cargo with a network or a filled registry cache.

set -euo pipefail

die() { printf '\nsoak: FAILED: %s\n' "$*" >&2; exit 1; }

minutes=${1:-}
if [[ ! $minutes =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
    echo "usage: ci/soak.sh MINUTES [--seed N]" >&2
    exit 2
fi
shift
if [[ $# -ne 0 && ! ($# -eq 2 && $1 == --seed && $2 =~ ^[0-9]+$) ]]; then
    echo "usage: ci/soak.sh MINUTES [--seed N]" >&2
    exit 2
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Built first, and the program run without cargo before it: a signal then reaches
# it, and nothing else, and it says what it has covered. Cargo names the program
# among its messages, in which only the test itself has an executable.
messages=$(cargo test --release --locked --test soak --no-run \
    --message-format json-render-diagnostics) || die "the build"
program=$(awk -v key='"executable":"' '
    (at = index($0, key)) {
        rest = substr($0, at + length(key))
        print substr(rest, 1, index(rest, "\"") - 1)
    }' <<<"$messages")
[[ -x $program ]] || die "cargo named no program, but '$program'"

exec "$program" --minutes "$minutes" "$@"
