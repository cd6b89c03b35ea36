#!/usr/bin/env bash
# Benchmarks decoding with quantized weights on a GPU: ms per token of bf16, q8 and q4 for two shapes, with the megakernel and
# step by step.
#   bench/gpu/packed_decode.sh BUILD_DIR [LAYERS_7B]      LAYERS_7B (default 28): layers of the larger shape; if memory is too
#                                                         small, measure two depths and extrapolate
# Weights are random; the speed does not depend on their values.
set -uo pipefail
usage='usage: bench/gpu/packed_decode.sh BUILD_DIR [LAYERS_7B]'
[ $# = 1 ] || [ $# = 2 ] || { printf '%s\n' "$usage" >&2; exit 2; }
build=$1
layers=${2:-28}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

shape() { # NAME LAYERS HIDDEN INTERMEDIATE HEADS KEY_HEADS VOCABULARY
  local name=$1 model=$folder/$1.genesis
  "$build/tools/genesis-build" qwen2 -o "$model.f32" --set num_hidden_layers="$2" --set hidden_size="$3" --set intermediate_size="$4" \
    --set num_attention_heads="$5" --set num_key_value_heads="$6" --set vocab_size="$7" --set max_position_embeddings=2048 >/dev/null || return 1
  "$build/tools/genesis-opt" "$model.f32" -o "$model" --cast bf16 >/dev/null || return 1
  rm "$model.f32"
  for format in bf16 q8 q4; do
    local file=$model
    if [ $format != bf16 ]; then
      file=$folder/$name.$format.genesis
      "$build/tools/genesis-opt" "$model" -o "$file" --quantize $format --quantize-head >/dev/null || return 1
    fi
    for switches in "" "--disable megakernel"; do
      # shellcheck disable=SC2086
      "$build/tools/genesis-run" bench "$file" --entry decode --device cuda --json --input position=full:64 --runs 100 $switches |
        python3 -c "import json, sys; d = json.load(sys.stdin); print('%-6s %-5s %-22s %9.1f tokens/s  %.4f ms' % ('$name', '$format', '${switches:-megakernel}', d['tokens_per_second'], 1e3 / d['tokens_per_second']))"
    done
    [ $format = bf16 ] || rm "$file"
  done
  rm "$model"
}

shape 0.5B 24 896 4864 14 2 151936
shape 7B "$layers" 3584 18944 28 4 152064
