#!/usr/bin/env bash
#
# Runs the loom models of loom-tests/.
#
#   ci/loom.sh [repaired|published|all|mutants|deep]        (default: all)
#
#   repaired    on loom with loom-tests/repair/load-then-swap.patch applied
#   published   on loom as it comes from the registry
#   all         one after the other
#   mutants     on repaired loom: the engine is broken in every way that
#               loom-tests/mutants.txt lists, and the model named there must fail
#   deep        on repaired loom, with the bounds that take minutes: no model of
#               two threads below three preemptions; a quarter of an hour
#
# Published loom leaves out the executions in which a thread's store overtakes
# another thread's load, if the storing thread has loaded the same atomic just
# before; the head of the patch says why. That is the shape of every
# compare-and-swap loop, so the repaired run is the one that counts. The
# published run repeats the models on code nobody here has touched, and fails on
# the day when upstream no longer needs the repair.
#
# Each model bounds the preemptions as it says; some say two bounds, of which the
# higher one is that of a deep run. LOOM_MAX_PREEMPTIONS lowers the
# bound of all that have a higher one or none, for a shorter run; it raises none.
#
# Needs bash, cargo with a network or a filled registry cache, and git or patch.

set -euo pipefail

say() { printf '\n== %s\n' "$*"; }
die() { printf '\nloom: FAILED: %s\n' "$*" >&2; exit 1; }

mode=${1:-all}
if [[ $# -gt 1 || ! $mode =~ ^(repaired|published|all|mutants|deep)$ ]]; then
    echo "usage: ci/loom.sh [repaired|published|all|mutants|deep]" >&2
    exit 2
fi

bound=${LOOM_MAX_PREEMPTIONS:-}
[[ $bound =~ ^[0-9]*$ ]] || die "LOOM_MAX_PREEMPTIONS is '$bound', which is not a number"

# Physical paths, since git compares them below.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
manifest=$root/loom-tests/Cargo.toml
patch=$root/loom-tests/repair/load-then-swap.patch

# Loom gets a target folder of its own: its flags differ from those of every
# other build, and it should neither wait for their lock nor crowd their cache.
build=${CARGO_TARGET_DIR:-$root/target}
mkdir -p "$build"
build=$(cd "$build" && pwd -P)
export CARGO_TARGET_DIR=$build/loom
copy=$build/loom-repaired/loom
stamp=$build/loom-repaired/stamp
mkdir -p "$CARGO_TARGET_DIR" "$build/loom-repaired"

# Cargo's settings and the toolchain are looked up from the current folder, and
# the caller's may be another project's.
cd "$root"

# Release mode because exploring is slow, debug assertions because the engine's
# own are part of what the models check. The caller's flags are dropped: a
# `-D warnings` among them would apply to the copy of loom as well, whose
# warnings cargo no longer silences. CARGO_ENCODED_RUSTFLAGS would take
# precedence over RUSTFLAGS, and the models would vanish without an error.
export RUSTFLAGS="--cfg tollgate_loom -C debug-assertions"
unset CARGO_ENCODED_RUSTFLAGS
# What would change the engine or the models, or have loom stop early.
unset TOLLGATE_MUTANT TOLLGATE_LOOM_DEEP LOOM_CHECKPOINT_FILE LOOM_CHECKPOINT_INTERVAL

# Prints the version of loom in the lock file and the folder of its source, which
# cargo downloads if need be. The platform filter spares the download of what
# only other platforms use; it honours RUSTFLAGS, so that loom itself stays in.
# The order of the keys is cargo's: name and version open a package, whereas in a
# list of dependencies the name is followed by the source.
locate_loom() {
    local host
    host=$(rustc -vV | awk '$1 == "host:" { print $2 }')
    cargo metadata --locked --format-version 1 --filter-platform "$host" \
        --manifest-path "$manifest" |
        awk -v package='{"name":"loom","version":"' -v path='"manifest_path":"' '
            (at = index($0, package)) {
                $0 = substr($0, at + length(package))
                version = substr($0, 1, index($0, "\"") - 1)
                $0 = substr($0, index($0, path) + length(path))
                manifest = substr($0, 1, index($0, "\"") - 1)
                sub("/Cargo.toml$", "", manifest)
                print version, manifest
            }'
}

# Leaves a repaired copy of loom's source in $copy. The stamp holds all that the
# copy is made from and is written last, so the copy is made anew after a change
# of patch or version or after an interruption, and otherwise stays as it is,
# which spares a build.
prepare_repaired_loom() {
    local found version source wanted
    found=$(locate_loom) ||
        die "cargo cannot tell where loom's source is (is loom-tests/Cargo.lock out of date?)"
    version=${found%% *}
    source=${found#* }
    [[ -n $version && -f $source/src/lib.rs ]] || die "loom's source is not at '$source'"

    wanted="loom $version"$'\n'"$(<"$patch")"
    if [[ -f $stamp && -d $copy && $(<"$stamp") == "$wanted" ]]; then
        return
    fi

    say "repairing loom $version"
    rm -rf "$copy" "$stamp"
    # Without -p, so that the files are new to cargo and it builds them again.
    cp -R "$source" "$copy"
    chmod -R u+w "$copy"
    if command -v git >/dev/null; then
        # The copy usually lies within this project's own repository. There git
        # would take the paths in a patch as relative to the repository's root
        # and skip them without an error, so it is kept from finding one.
        (cd "$copy" && env -u GIT_DIR -u GIT_WORK_TREE \
            GIT_CEILING_DIRECTORIES="$build/loom-repaired" git apply -p1 "$patch") ||
            die "the patch does not apply to loom $version"
    elif command -v patch >/dev/null; then
        (cd "$copy" && command patch -p1 -s <"$patch") ||
            die "the patch does not apply to loom $version"
    else
        die "git or patch is needed to repair loom, and neither was found"
    fi
    printf '%s\n' "$wanted" >"$stamp"
}

# Runs cargo test on the loom that $override selects.
#
# The repaired copy is put in place by a path override (`paths`) rather than by
# `[patch.crates-io]`. A patch is part of the resolution: with it loom has no
# source and no checksum in the lock file, so the two runs could not share one,
# and each would rewrite what the other left. A path override replaces the source
# of a package after the lock file was read, provided that name, version and
# dependencies stay the same, as they do here. So one lock file, loom-tests/Cargo.lock,
# holds for both runs, and `--locked` makes cargo stop rather than change it.
cargo_test() {
    cargo test --release --locked --manifest-path "$manifest" --config "$override" "$@"
}

# Runs cargo test for one test file. The counts of the statistics are part of the
# models of the statistics alone, so these have a build of their own. And so have
# the models of a bucket whose second cell is beyond every key's home line, which
# are those of FILE once more, as homes:FILE.
cargo_test_file() {
    local name=$1
    shift
    case $name in
        statistics) cargo_test_with statistics --test "$name" "$@" ;;
        homes:*) cargo_test_with homes --test "${name#homes:}" "$@" ;;
        *) cargo_test --test "$name" "$@" ;;
    esac
}

# Runs cargo test with one more cfg.
cargo_test_with() {
    local cfg=$1
    shift
    RUSTFLAGS="$RUSTFLAGS --cfg tollgate_loom_$cfg" \
        CARGO_TARGET_DIR=$CARGO_TARGET_DIR/$cfg cargo_test "$@"
}

# The files whose models are run with the second cell beyond the home line, too.
beyond_home=(insert reclaim evict)

# Runs one test file and prints what it took.
run_file() {
    local name=$1 log=$build/loom-repaired/${1/:/-}.log start=$SECONDS
    local most=${LOOM_MAX_PREEMPTIONS:-}
    local as="as written"
    [[ $mode != deep ]] || as="as in a deep run"
    say "$kind loom, $name, preemptions $as${most:+, at most $most}"
    cargo_test_file "$name" --quiet -- --nocapture 2>&1 | tee "$log" ||
        die "$name on $kind loom"
    # A file that ran nothing, for instance because its cfg was lost, has shown
    # nothing, although cargo is content with it.
    local tests
    tests=$(grep -c '^#\[test\]' "$root/loom-tests/tests/${name#homes:}.rs")
    [[ $(<"$log") == *"test result: ok. $tests passed"* ]] ||
        die "$name did not run its $tests tests"
    # Three threads may stay below three preemptions, and their models say so by their names.
    if [[ $mode == deep && $name != repair ]] &&
        grep -E ', bound [0-2],' "$log" | grep -v 'three threads'; then
        die "these models of $name are below three preemptions"
    fi
    printf -- '-- %s on %s loom: passed in %s s\n' "$name" "$kind" "$((SECONDS - start))"
}

# Selects a kind of loom and builds all models on it.
build_on() {
    local name
    kind=$1
    if [[ $kind == repaired ]]; then
        prepare_repaired_loom
        override="paths = ['$copy']"
        unset TOLLGATE_LOOM_PUBLISHED
    else
        override="paths = []"
        export TOLLGATE_LOOM_PUBLISHED=1
    fi

    say "building for $kind loom"
    cargo_test --tests --no-run || die "the build for $kind loom"
    cargo_test_file statistics --no-run || die "the build for $kind loom"
    for name in "${beyond_home[@]}"; do
        cargo_test_file "homes:$name" --no-run || die "the build for $kind loom"
    done

    # First of all, whether this is the loom it is said to be. That test sets its
    # own bound.
    unset LOOM_MAX_PREEMPTIONS
    run_file repair
}

# Runs test files side by side, as many at a time as there are cores: most have one model that takes most of
# their time. What each has to say is printed when it is done.
run_files() {
    local name cores running=0
    cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
    say "$kind loom, $cores at a time: $*"
    for name in "$@"; do
        if [[ $running -ge $cores ]]; then
            wait -n || die_of_one
            running=$((running - 1))
        fi
        tell_when_done run_file "$name" &
        running=$((running + 1))
    done
    while [[ $running -gt 0 ]]; do
        wait -n || die_of_one
        running=$((running - 1))
    done
}

# One of those that run has failed, and has said why.
die_of_one() {
    kill $(jobs -p) 2>/dev/null || true
    die "see above"
}

# Runs a command, and prints all at once what it has printed.
tell_when_done() {
    local told status=0
    told=$("$@" 2>&1) || status=$?
    printf '%s\n' "$told"
    return "$status"
}

# Runs all test files on one kind of loom.
run_all() {
    local file name names=()
    build_on "$1"
    if [[ -n $bound ]]; then
        export LOOM_MAX_PREEMPTIONS=$bound
    fi
    for file in "$root"/loom-tests/tests/*.rs; do
        name=$(basename "$file" .rs)
        # The first has been run; the others have no model (see ci/stalls.sh and ci/shuttle.sh).
        if [[ ! $name =~ ^(repair|stalls|answers|random)$ ]]; then
            names+=("$name")
        fi
    done
    run_files "${names[@]}"
    # These go at most two preemptions far, but for a deep run: they take minutes otherwise.
    if [[ $mode != deep && ${LOOM_MAX_PREEMPTIONS:-2} -ge 2 ]]; then
        export LOOM_MAX_PREEMPTIONS=2
    fi
    run_files "${beyond_home[@]/#/homes:}"
}

# Prints where a run has panicked first, as FILE:LINE, if that is in a model's test or in the
# engine. (Some panic twice, which ends the process.) Nothing where loom has given up, because the
# model spun or had come to a deadlock; where a helper of the models did, because a thread did not
# come to its step; or where probe.rs refused the mutant: none of them has shown what goes wrong.
assertion() {
    local place
    place=$(sed -n '/ panicked at /{s/.* panicked at \(.*:[0-9]*\):[0-9]*:$/\1/p;q;}' "$1")
    case $place in
        "$root"/src/probe.rs:*) ;;
        "$root"/src/*) printf '%s' "${place#"$root"/}" ;;
        tests/*) printf 'loom-tests/%s' "$place" ;;
    esac
}

# Breaks the engine in one way after the other and has the model that is named
# for it fail. What counts is a panic of that one test, in an assertion: a build
# that fails, a model that is not there, or one that loom gives up kills no mutant.
run_mutants() {
    local name file test log=$build/loom-repaired/mutant.log start status by
    local killed=0 argued=0 survived=() whole=()
    build_on repaired
    say "mutants"
    while IFS='|' read -r name file test || [[ -n $name ]]; do
        name=$(trim "$name") file=$(trim "$file") test=$(trim "$test")
        if [[ -z $name || $name == '#'* ]]; then
            continue
        fi
        if [[ $file == none ]]; then
            argued=$((argued + 1))
            printf '%-40s no model: %s\n' "$name" "$test"
            continue
        fi
        start=$SECONDS
        # A model that fails anyway kills nothing.
        if [[ " ${whole[*]} " != *" $file::$test "* ]]; then
            cargo_test_file "$file" -- --exact "$test" >"$log" 2>&1 </dev/null ||
                die "$file::$test fails on the engine as it is"
            [[ $(<"$log") == *"test result: ok. 1 passed"* ]] || die "no model $file::$test"
            whole+=("$file::$test")
        fi
        status=0
        TOLLGATE_MUTANT=$name cargo_test_file "$file" -- --exact "$test" \
            >"$log" 2>&1 </dev/null || status=$?
        by=$(assertion "$log")
        if [[ $status != 0 && $(<"$log") == *"running 1 test"* && -n $by ]]; then
            killed=$((killed + 1))
            printf '%-40s killed by %s::%s at %s, %s s\n' \
                "$name" "$file" "$test" "$by" $((SECONDS - start))
        else
            survived+=("$name")
            printf '%-40s SURVIVED %s::%s\n' "$name" "$file" "$test"
            grep -m 1 -A 1 ' panicked at ' "$log" || true
        fi
    done <"$root/loom-tests/mutants.txt"
    [[ ${#survived[@]} == 0 ]] || die "${#survived[@]} mutants survived: ${survived[*]}"
    [[ $((killed + argued)) == $(grep -cv -e '^#' -e '^$' "$root/loom-tests/mutants.txt") ]] ||
        die "not every mutant of loom-tests/mutants.txt was run"
    say "loom: all $killed mutants were killed; $argued have no model, for the reasons above"
}

trim() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    printf '%s' "${text%"${text##*[![:space:]]}"}"
}

trap 'kill $(jobs -p) 2>/dev/null || true; die "interrupted; what has passed is above"' INT TERM HUP

if [[ $mode == mutants ]]; then
    run_mutants
    exit
fi
if [[ $mode == deep ]]; then
    [[ -z $bound ]] || die "LOOM_MAX_PREEMPTIONS would lower the bounds that are to be raised"
    export TOLLGATE_LOOM_DEEP=1
fi
if [[ $mode != published ]]; then run_all repaired; fi
if [[ $mode == published || $mode == all ]]; then run_all published; fi

if [[ -n $bound ]]; then say "LOOM_MAX_PREEMPTIONS=$bound has lowered the bounds"; fi
case $mode in
    deep)
        say "loom: all models passed on repaired loom, those of two threads at three preemptions" \
            "or more, in $SECONDS s"
        ;;
    repaired) say "loom: all models passed on repaired loom" ;;
    published) say "loom: all models passed on published loom, which does not explore every race" ;;
    all) say "loom: all models passed on repaired loom and on published loom" ;;
esac
