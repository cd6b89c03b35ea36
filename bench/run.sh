#!/usr/bin/env bash
# Runs every bench and prints one table at the end: bar, required, reached. Called by `./dev bench`.
#   bench/run.sh BUILD_DIR [OUTPUT_DIR]      reports as JSON go to OUTPUT_DIR (default: BUILD_DIR/bench-results)
# TORCH_PYTHON names a Python with PyTorch for the comparison (default: python3; skipped if it has no PyTorch).
# Every figure is a ratio to a limit measured in the same run, but other work on the machine still disturbs it.
set -euo pipefail
wrong_usage() { printf 'bench/run.sh: %s\nusage: bench/run.sh BUILD_DIR [OUTPUT_DIR]\n' "$1" >&2; exit 2; }
[ $# = 1 ] || [ $# = 2 ] || wrong_usage "expected BUILD_DIR and perhaps OUTPUT_DIR"
build=$1
[ -x "$build/bench/matmul" ] || wrong_usage "there are no benches in '$build/bench': build them first (./dev bench does)"
out=${2:-$build/bench-results}
here=$(dirname "$0")
python=${TORCH_PYTHON:-python3}
mkdir -p "$out"
rm -f "$out"/*.json

section() { printf '\n== %s\n' "$*"; }
# A bench that fails is reported and leaves its bars unmeasured; the others still run.
bench() { "$build/bench/$1" "${@:2}" || printf '%s failed\n' "$1" >&2; }
plain() { sed 's/[{}"]//g' "$1"; }  # prints lines of JSON for a reader

section "matrix products"
bench matmul --json "$out/matmul.json"
section "elementwise and fused ops"
bench bench_elementwise --json >"$out/elementwise.json"
plain "$out/elementwise.json"
section "rows: softmax, norms, losses, optimizers"
bench bench_rows --json "$out/rows.json"
section "reductions"
bench bench_reduce --json "$out/reduce.json"
section "attention, rope, swiglu"
bench bench_attention --json >"$out/attention.json"
plain "$out/attention.json"
section "a step of training"
bench bench_train_step --json "$out/train_step.json"
if command -v "$python" >/dev/null; then
  timeout 600 "$python" "$here/peers/torch_train_step.py" --json "$out/torch.json" ||
    echo "the comparison with PyTorch did not finish" >&2
else
  echo "no $python: the comparison with PyTorch is skipped"
fi
section "decoding"
bench bench_decode --json "$out/decode.json"
section "a tokenizer"
bench bench_tokenizer --json "$out/tokenizer.json"
if command -v "$python" >/dev/null; then
  timeout 600 "$python" "$here/peers/tokenizers_library.py" --json "$out/tokenizers_library.json" ||
    echo "the comparison with tokenizers did not finish" >&2
fi
section "executor"
bench bench_overhead --json "$out/overhead.json"
section "a file of 2 GB"
bench bench_experts --json "$out/experts.json"
bench bench_open_file --json "$out/open_file.json"
section "memory of every model"
bench bench_arena --json "$out/arena.json"
section "hard plans"
bench plan_instances --json "$out/plan_instances.json"
bench bench_summary "$out"
echo
echo "reports: $out"
