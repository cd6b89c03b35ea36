#!/usr/bin/env bash
# Runs everything that needs a GPU: tests first, then the benches, and last a table of all bars (summary.py).
#   bench/gpu/run.sh BUILD_DIR [OUTPUT_DIR]     logs and JSON go to OUTPUT_DIR (default: BUILD_DIR/gpu-results)
# STEPS chooses from: tests sanitizer ops models (default: all). LIMIT: seconds a test program may take. PYTHON names a Python
# with PyTorch and transformers.
# Builds BUILD_DIR if it has no tests/test_ops. A suite is split over the cores, since a GPU can be shared by many processes.
set -uo pipefail
wrong_usage() { printf 'bench/gpu/run.sh: %s\nusage: bench/gpu/run.sh BUILD_DIR [OUTPUT_DIR]\n' "$1" >&2; exit 2; }
[ $# = 1 ] || [ $# = 2 ] || wrong_usage "expected BUILD_DIR and perhaps OUTPUT_DIR"
case "$1" in -*) wrong_usage "there is no option '$1'" ;; esac
build=$1
out=${2:-$build/gpu-results}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
steps=" ${STEPS:-tests sanitizer ops models} "
for step in $steps; do
  case $step in tests | sanitizer | ops | models) ;; *) wrong_usage "STEPS: there is no part '$step'; there are: tests sanitizer ops models" ;; esac
done
jobs=${JOBS:-$(nproc)}
mkdir -p "$out"
failed=0

section() { printf '\n== %s\n' "$*"; }
wanted() { [[ $steps == *" $1 "* ]]; }

# Appends the last test of a test program that crashed as failed.
crashed() { grep -q '^\[==========\].* ran' "$1" || printf '[  FAILED  ] %s, died (0 ms)\n' "$(grep -a '^\[ RUN' "$1" | tail -1 | awk '{ print $4 }')" >>"$1"; }
# Runs one suite in as many shards as there are cores, under $WRAP; prints the failures and a line with the counts.
run_suite() {
  local suite=$1 name=${2:-$1} i
  for ((i = 0; i < jobs; ++i)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$i timeout ${LIMIT:-300} ${WRAP:-} "$build/tests/$suite" "${@:3}" >"$out/$name.$i.log" 2>&1 || crashed "$out/$name.$i.log" &
  done
  wait
  cat "$out/$name".*.log >"$out/$name.log"
  rm "$out/$name".*.log
  grep -a '^\[  FAILED  \].*(.* ms)\|Segmentation\|terminate' "$out/$name.log" | sort | uniq | head -${SHOW:-40}
  local passed
  passed=$(grep -a '^\[  PASSED  \]' "$out/$name.log" | awk '{ n += $4 } END { print n + 0 }')
  echo "$name: $passed passed, $(grep -ac '^\[  FAILED  \].*ms)$' "$out/$name.log") failed, $(grep -ac '^\[  SKIPPED \].*ms)$' "$out/$name.log") skipped"
  ! grep -aq '^\[  FAILED' "$out/$name.log" || failed=1
}

[ -x "$build/tests/test_ops" ] || { meson setup "$build" "$here/../.." && ninja -C "$build"; } || exit 1

if wanted tests; then
  section "tests"
  run_suite test_ops
  run_suite test_cuda
  "$here/../../tests/cuda/families.sh" "$build" || failed=1
fi
if wanted sanitizer; then
  section "compute-sanitizer"
  for tool in memcheck racecheck; do
    WRAP="compute-sanitizer --tool $tool" run_suite test_cuda "$tool"
    WRAP="compute-sanitizer --tool $tool" run_suite test_ops "$tool-ops" --gtest_filter="${SANITIZED:-*}"
    grep -ah '========= .*ERROR SUMMARY\|========= RACECHECK SUMMARY' "$out/$tool.log" "$out/$tool-ops.log" | sort | uniq -c
  done
fi
if wanted ops; then
  section "single ops against PyTorch"
  "$python" "$here/ops.py" "$build" --json "$out/ops.json" ${OPS_FLAGS:-} >"$out/ops.txt" || failed=1
  tail -14 "$out/ops.txt"
fi
if wanted models; then
  section "models against PyTorch"
  "$python" "$here/models.py" "$build" --json "$out/models.json" ${MODEL_FLAGS:-} || failed=1
fi
if wanted ops || wanted models; then
  section "bars"
  "$python" "$here/summary.py" "$out" || failed=1
fi
exit $failed
