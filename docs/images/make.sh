#!/usr/bin/env bash
# Makes the pictures in docs/tour.md: docs/images/make.sh BUILD [FOLDER]
#   BUILD    the folder that Genesis was built in
#   FOLDER   where to put the pictures; docs/images when not given
# The graph is that of the model of `./dev demo`. metrics.jsonl is what the training of such a demo of one minute wrote: steps and
# losses, to two digits. A test of the suite says when the pictures are not what this makes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=$(cd "$1" && pwd)/tools
out=$(cd "${2:-$here}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$here"  # so that the title of loss.svg names the file without a path
"$tools/genesis-build" qwen2 --set hidden_size=256 --set intermediate_size=704 --set num_hidden_layers=4 \
  --set num_attention_heads=4 --set num_key_value_heads=2 --seed 1 -o "$work/qwen2.genesis" >/dev/null
"$tools/genesis-opt" "$work/qwen2.genesis" --inference -o "$work/model.genesis" >/dev/null 2>&1
"$tools/genesis-viz" "$work/model.genesis" --entry forward -o "$out/graph.svg"
"$tools/genesis-viz" --loss metrics.jsonl --baseline 2.26 --baseline-name "byte bigram" -o "$out/loss.svg"
