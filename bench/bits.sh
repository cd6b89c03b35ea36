#!/usr/bin/env bash
# Prints one line per model of the zoo: a digest of the losses of a few training steps, or of the generated tokens. Two builds
# that print the same lines compute the same bits: run the script with each of them on one machine and compare. On a GPU both must
# use the same tuned products, kept in ~/.cache/genesis or below XDG_CACHE_HOME: a product that is tuned again may get another
# algorithm, which sums in another order.
#   bench/bits.sh BUILD_DIR [DEVICE]     DEVICE: cpu (default) or cuda
set -euo pipefail
[ $# = 1 ] || [ $# = 2 ] || { printf 'usage: bench/bits.sh BUILD_DIR [DEVICE]\n' >&2; exit 2; }
tools=$(cd "$1/tools" && pwd)
device=${2:-cpu}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
awk 'BEGIN { for (i = 0; i < 4000; ++i) printf "%d green bottles, %d less one. ", i * 7919 % 251, i }' >text.txt

tiny() {  # prints the settings of MODEL
  case $1 in
    gpt2) printf ' --set %s' n_embd=128 n_layer=3 n_head=2 n_positions=64 ;;
    *) printf ' --set %s' hidden_size=128 intermediate_size=256 num_hidden_layers=3 num_attention_heads=2 num_key_value_heads=1 max_position_embeddings=64 ;;
  esac
}

train() {  # MODEL OPTIONS: the metrics have every digit of the losses
  "$tools/genesis-build" "$1" $(tiny "$1") --seed 5 -o model.genesis >/dev/null
  "$tools/genesis-opt" model.genesis --train "$2" -o train.genesis >/dev/null 2>&1
  "$tools/genesis-run" train train.genesis --data text.txt --steps 12 --batch 6 --seq 48 --seed 1 --device "$device" --quiet --metrics metrics.jsonl -o after.genesis >/dev/null 2>&1
  grep -o '"loss":[^,}]*' metrics.jsonl | sha256sum | cut -c1-16
  rm metrics.jsonl
}

write() {  # MODEL: greedy choice, and sampling
  "$tools/genesis-build" "$1" $(tiny "$1") --seed 5 -o model.genesis >/dev/null
  for choice in "--temperature 0" "--temperature 1 --seed 3"; do
    "$tools/genesis-run" generate model.genesis --prompt "ten green" --max-tokens 40 $choice --device "$device" --json 2>/dev/null | tr -d ' \n' | grep -o '"tokens":[^]]*'
  done | sha256sum | cut -c1-16
}

for model in gpt2 qwen2 qwen3; do
  for options in adamw,clip=1.0 adamw,clip=1.0,precision=bf16 adamw,accumulate=2,precision=f16 lion sgd,momentum=0.9; do
    printf '%s %s %s %s\n' "$device" "$model" "$options" "$(train "$model" "$options")"
  done
  printf '%s %s writes %s\n' "$device" "$model" "$(write "$model")"
done
