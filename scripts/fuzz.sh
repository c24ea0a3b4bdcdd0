#!/usr/bin/env bash
# Fuzzes every parser that a file reaches, from the seeds in fuzz/seeds:
#
#     scripts/fuzz.sh                         the same inputs each time, as `make test` does
#     scripts/fuzz.sh SECONDS [TARGET...]     others each time, for so long each, as `make fuzz` does
#
# Needs stable Rust and a C++ compiler, nothing else. One line for each target; an input that brings
# a parser down is left in fuzz/artifacts and makes the exit code 1. To look at one:
#
#     fuzz/target/HOST/release/TARGET fuzz/artifacts/TARGET/crash-...
#
# What is found within SECONDS is kept in fuzz/corpus, so that the next such run goes on from there.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-}
if [ $# -gt 0 ] && ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
    echo "fuzz: found '$seconds', expected a number of seconds, 1 or more" >&2
    exit 2
fi
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for source in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$source" .rs)"); done
fi

# Five seconds' worth on two cores, at most.
inputs_of() {
    case $1 in
    features_table) echo 2500 ;;
    sealed_rlwe | sealed_committed) echo 4000 ;;
    dataset_trajectories) echo 7000 ;;
    *) echo 10000 ;;
    esac
}

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
inputs="$scratch/inputs"
# A target's inputs have 60 MiB at most.
if [ "$(df -Pk "$scratch" | awk 'END { print $4 }')" -lt 262144 ]; then inputs=$(mktemp -d); fi
trap 'rm -rf "$scratch" "$inputs"' EXIT

failed=0
printf '%-22s %12s %10s %8s %8s  %s\n' target executions coverage corpus MiB result
for target in "${targets[@]}"; do
    if [ -n "$seconds" ]; then
        corpus="fuzz/corpus/$target"
        extent=(-max_total_time="$seconds")
    else
        corpus="$inputs/$target"
        extent=(-runs=0)
    fi
    mkdir -p "$corpus" "fuzz/artifacts/$target"
    if [ -z "$seconds" ]; then
        scripts/fuzz_inputs.py "$target" "$(inputs_of "$target")" "$corpus"
    fi
    log="$scratch/log"
    result=ok
    # A minute for an input that takes milliseconds: a busy machine is no finding. The largest file
    # here is read within 100 MiB, and the Parquet reader may take 512 MiB.
    TMPDIR="$scratch" RUST_BACKTRACE=0 "fuzz/target/$host/release/$target" \
        "$corpus" "fuzz/seeds/$target" "${extent[@]}" \
        -artifact_prefix="fuzz/artifacts/$target/" -max_len=16384 \
        -timeout=60 -rss_limit_mb=1024 -dict=fuzz/values.dict -print_final_stats=1 \
        >"$log" 2>&1 || result="FAILED"
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    memory=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log" | tail -1)
    counts=$(grep -E '^#[0-9]+.* cov: ' "$log" | tail -1 || true)
    coverage=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' <<<"$counts")
    found=$(sed -n 's/.* corp: \([0-9]*\).*/\1/p' <<<"$counts")
    printf '%-22s %12s %10s %8s %8s  %s\n' "$target" \
        "${executions:--}" "${coverage:--}" "${found:--}" "${memory:--}" "$result"
    if [ "$result" != ok ]; then
        failed=1
        grep -vE '^(#|INFO: [^S]|stat::|NEW_FUNC)' "$log" | tail -25 | sed 's/^/    /'
    fi
    rm -rf "${inputs:?}/$target"
done
exit $failed
