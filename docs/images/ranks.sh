#!/usr/bin/env bash
# Makes the pictures in docs/scaling.md: docs/images/ranks.sh BUILD [FOLDER] [DEVICE]
#   BUILD    the folder that Genesis was built in
#   FOLDER   where to put the pictures; docs/images when not given
#   DEVICE   cpu (when not given; ranks_timeline.svg then needs mpirun) or cuda, with two GPUs
# ranks_memory.svg is what the plan says, ranks_timeline.svg is measured: no test holds it against anything.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=$(cd "$1" && pwd)/tools
out=$(cd "${2:-$here}" && pwd)
device=${3:-cpu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

threads=(--threads 1)  # one core for each rank
[ "$device" = cpu ] || threads=()
"$tools/genesis-build" qwen2 --set hidden_size=256 --set intermediate_size=704 --set num_hidden_layers=4 \
  --set num_attention_heads=4 --set num_key_value_heads=2 --seed 1 -o "$work/qwen2.genesis" >/dev/null
"$tools/genesis-opt" "$work/qwen2.genesis" --train adamw -o "$work/train.genesis" >/dev/null 2>&1
sizes=(--entry train_step --size batch=8 --size seq=128)
"$tools/genesis-viz" "$work/train.genesis" "${sizes[@]}" --mesh data=4 --zero 1 --memory -o "$out/ranks_memory.svg"
"$tools/genesis-run" profile "$work/train.genesis" "${sizes[@]}" --mesh data=2 --device "$device" "${threads[@]}" \
  --runs 5 --trace "$work/trace.json" >/dev/null
"$tools/genesis-viz" --trace "$work/trace.json" -o "$out/ranks_timeline.svg"
