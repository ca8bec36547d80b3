#!/usr/bin/env bash
#
# Runs the tests in which real threads stop inside a call, or are killed there:
# loom-tests/tests/stalls.rs and answers.rs, on the table as it is in production.
#
# The engine is built with a private cfg that lets a test stop a thread at a named
# step; src/probe.rs has it. Needs nothing but cargo.

set -euo pipefail

for tests in stalls answers; do
    "$(dirname "${BASH_SOURCE[0]}")/cfg-test.sh" "$tests" tollgate_stops
done
