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

exec "$(dirname "${BASH_SOURCE[0]}")/cfg-test.sh" random tollgate_shuttle
