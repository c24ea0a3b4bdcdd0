#!/usr/bin/env bash
# Fuzzes every parser that a file reaches, each for some seconds, from the seeds in fuzz/seeds:
#
#     scripts/fuzz.sh [SECONDS] [TARGET...]
#
# Needs stable Rust and a C++ compiler, nothing else. One line for each target; an input that brings
# a parser down is left in fuzz/artifacts and makes the exit code 1. To look at one:
#
#     fuzz/target/HOST/release/TARGET fuzz/artifacts/TARGET/crash-...
#
# What is found on the way is kept in fuzz/corpus, so that the next run goes on from there.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-5}
if ! [[ $seconds =~ ^[0-9]+$ ]]; then
    echo "fuzz: found '$seconds', expected a number of seconds" >&2
    exit 2
fi
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for source in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$source" .rs)"); done
fi

# Coverage as libFuzzer reads it; only for the target, not for build scripts, hence --target.
host=$(rustc -vV | sed -n 's/^host: //p')
coverage="-Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage+=" -Cllvm-args=-sanitizer-coverage-$option"
done
CARGO_TARGET_DIR=fuzz/target RUSTFLAGS="$coverage --cfg fuzzing" CARGO_INCREMENTAL=0 \
    cargo build --quiet --locked --release --target "$host" --manifest-path fuzz/Cargo.toml

# Readers that need a path get a file in memory where there is such a place.
scratch=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/fedtse-fuzz.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

failed=0
printf '%-22s %12s %10s %8s  %s\n' target executions coverage corpus result
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    # The Parquet decoder counts through whatever list a damaged footer claims: two thousand million
    # elements in seconds. Slow, but it ends.
    case $target in
    parquet_* | dataset_trajectories | dataset_vehicles | features_table) patience=60 ;;
    *) patience=5 ;;
    esac
    log="$scratch/log"
    result=ok
    TMPDIR="$scratch" RUST_BACKTRACE=0 "fuzz/target/$host/release/$target" \
        "fuzz/corpus/$target" "fuzz/seeds/$target" \
        -artifact_prefix="fuzz/artifacts/$target/" -max_total_time="$seconds" -max_len=16384 \
        -timeout="$patience" -rss_limit_mb=1024 -malloc_limit_mb=512 -dict=fuzz/values.dict \
        -print_final_stats=1 -seed=1 \
        >"$log" 2>&1 || result="FAILED"
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    counts=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -1 || true)
    coverage=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' <<<"$counts")
    corpus=$(sed -n 's/.* corp: \([0-9]*\).*/\1/p' <<<"$counts")
    printf '%-22s %12s %10s %8s  %s\n' \
        "$target" "${executions:--}" "${coverage:--}" "${corpus:--}" "$result"
    if [ "$result" != ok ]; then
        failed=1
        grep -vE '^(#|INFO:|stat::|NEW_FUNC)' "$log" | tail -25 | sed 's/^/    /'
    fi
done
exit $failed
