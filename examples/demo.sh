#!/usr/bin/env bash
# The main job, from nothing to a model that writes text: `./dev demo` calls this when it has built the tools.
#   --text FILE     train on this text instead of the King James Bible, which the package bible-kjv carries
#   --minutes M     time to train (default 1)
#   --out DIR       where to put what is made (default: demo, beside dev)
#   --tools DIR     where the tools are (default: build/tools, beside dev)
#   --check         look at the options and the text, and do nothing
# A relative path means a file under the folder you are in.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")/
[ "$root" = "$(pwd -P)/" ] && root=""
text="" minutes=1 out=${root}demo tools=${root:-./}build/tools check=no

wrong_usage() { printf 'demo: %s; ./dev demo --help lists the options\n' "$*" >&2; exit 2; }
could_not() { printf 'demo: %s\n' "$*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case "$1" in
    --check) check=yes; shift; continue ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
  esac
  case "$1" in
    --text | --minutes | --out | --tools) ;;
    *) wrong_usage "unknown option '$1'" ;;
  esac
  case "${2:-}" in "" | --*) wrong_usage "$1 needs a value behind it" ;; esac
  declare "${1#--}=$2"
  shift 2
done
[[ $minutes =~ ^[0-9]*\.?[0-9]*$ && $minutes =~ [1-9] ]] || wrong_usage "--minutes $minutes: expected a number above 0, such as 5 or 0.5"
[ -z "$text" ] || { [ -r "$text" ] && [ ! -d "$text" ]; } || could_not "--text $text: there is no such file that can be read in $PWD"
[ ! -e "$out" ] || [ -d "$out" ] || could_not "--out $out: it is not a folder"
# Old checkpoints are removed, but only those of a demo.
[ ! -e "$out/checkpoints" ] || [ -e "$out/train.genesis" ] || could_not "--out $out: it has a folder 'checkpoints' that no demo made; name another folder"
[ $check = no ] || exit 0
mkdir -p "$out"
rm -rf "$out/checkpoints" "$out/metrics.jsonl"

say() { printf '\n== %s\n' "$*" >&2; }
# Prints the number that follows "key": in a line of JSON.
number() { grep -o "\"$1\":[-0-9.e+]*" | head -n 1 | cut -d: -f2; }

if [ -z "$text" ]; then
  text=$out/text.txt
  bible -f 'Genesis1:1-Revelation22:21' | sed 's/^[^ ]* //' > "$text"  # without the verse numbers
fi

say "The text: $text"
bigram=$("$tools/genesis-run" baseline "$text" --json | number bigram)
"$tools/genesis-run" baseline "$text"

say "Building a small Qwen2 over bytes, and adding training"
"$tools/genesis-build" qwen2 --set hidden_size=256 --set intermediate_size=704 --set num_hidden_layers=4 \
  --set num_attention_heads=4 --set num_key_value_heads=2 --set initializer_range=0.06 --seed 1 -o "$out/qwen2.genesis"
# Times a few steps first to find how many fit into the given minutes, so that the learning rate schedule ends with the run.
"$tools/genesis-opt" "$out/qwen2.genesis" --train adamw -o "$out/train.genesis" >/dev/null
step_ms=$("$tools/genesis-run" bench "$out/train.genesis" --entry train_step --size batch=8 --size seq=128 --runs 8 --json | number median_ms)
steps=$(awk -v m="$minutes" -v ms="$step_ms" 'BEGIN { n = int(m * 60000 / ms); print n < 50 ? 50 : n }')
"$tools/genesis-opt" "$out/qwen2.genesis" -o "$out/train.genesis" \
  --train "adamw,lr=2e-3,weight_decay=0.05,clip=1.0,schedule=warmup_cosine,warmup=$((steps / 20)),total=$steps"

say "Training $steps steps of 8 x 128 bytes, about $minutes minute(s)"
trained=$("$tools/genesis-run" train "$out/train.genesis" --data "$text" --batch 8 --seq 128 --steps "$steps" --json \
  --checkpoint "$out/checkpoints" --metrics "$out/metrics.jsonl" -o "$out/trained.genesis")

say "Optimizing for inference"
"$tools/genesis-opt" "$out/trained.genesis" --inference -o "$out/model.genesis" 2>/dev/null

say "Writing text"
"$tools/genesis-run" generate "$out/model.genesis" --prompt "In the beginning " --max-tokens 400 --temperature 0.7 --top-k 40 --seed 1
decode=$("$tools/genesis-run" generate "$out/model.genesis" --prompt "And God said" --max-tokens 300 --json 2>/dev/null | number decode_tokens_per_second)

say "Drawing"
"$tools/genesis-viz" "$out/model.genesis" --entry forward -o "$out/graph.svg"
"$tools/genesis-viz" --loss "$out/metrics.jsonl" --baseline "$bigram" --baseline-name "byte bigram" -o "$out/loss.svg"
"$tools/genesis-viz" "$out/train.genesis" --entry train_step --memory --size batch=8 --size seq=128 -o "$out/memory.svg"
page=$out/page.html
"$tools/genesis-viz" "$out/train.genesis" --loss "$out/metrics.jsonl" --size batch=8 --size seq=128 -o "$page" || page="not made: see above"

loss=$(tail -n 20 "$out/metrics.jsonl" | grep -o '"loss":[0-9.]*' | cut -d: -f2 | awk '{ s += $1 } END { printf "%.4f", s / NR }')
row() { printf '%-36s %s\n' "$1" "$2"; }
echo
row "loss of a byte bigram model" "$(printf %.4f "$bigram") nats per byte"
row "loss of this model, last 20 steps" "$loss nats per byte"
row "training" "$(printf %.0f "$(number items_per_second <<<"$trained")") bytes/s, $steps steps"
row "decoding" "$(printf %.0f "$decode") bytes/s"
row "model for inference" "$out/model.genesis ($(du -h "$out/model.genesis" | cut -f1))"
row "checkpoint to go on from" "$(ls "$out"/checkpoints/*.genesis | tail -n 1)"
row "pictures" "$out/graph.svg $out/loss.svg $out/memory.svg"
row "all of it as a page for a browser" "$page"
awk -v a="$loss" -v b="$bigram" 'BEGIN { if (a >= b) { print "demo: the loss did not fall below the bigram model: train longer (--minutes)" > "/dev/stderr"; exit 1 } }'
