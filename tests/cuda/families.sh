#!/usr/bin/env bash
# Runs the tiny checkpoints of all families on a GPU and on the CPU, and compares every value of both: the whole text, a prompt, a token
# behind it, and a training step.
#   tests/cuda/families.sh BUILD_DIR [DEVICE]      DEVICE: cuda, or cpu for a dry run
# Prints a line for each checkpoint that differs, and the number of those that agree. The suite compares the CPU with transformers.
set -uo pipefail
[ $# = 1 ] || [ $# = 2 ] || { echo 'usage: tests/cuda/families.sh BUILD_DIR [DEVICE]' >&2; exit 2; }
tools=$1/tools device=${2:-cuda}
checkpoints=$(cd "$(dirname "$0")/../models/hugging_face" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0

check() { # NAME FILE ENTRY SIZES...
  local said
  if said=$("$tools/genesis-run" compare "$2" --entry "$3" --a cpu --b "$device" "${@:4}" 2>&1); then return 0; fi
  printf '%s, %s: %s\n' "$1" "$3" "$(tail -1 <<<"$said")"
  return 1
}

for config in "$checkpoints"/*/config.json "$checkpoints"/encoders/*/config.json; do
  name=$(basename "$(dirname "$config")") file=$folder/model.genesis good=1
  "$tools/genesis-build" "$(dirname "$config")" -o "$file" --quiet >/dev/null 2>"$folder/error" || { printf '%s: %s\n' "$name" "$(tail -1 "$folder/error")"; failed=$((failed + 1)); continue; }
  entries=$("$tools/genesis-run" info "$file" --json | python3 -c "import json, sys; print(' '.join(e['name'] for e in json.load(sys.stdin)['entries']))")
  for entry in forward prefill decode embed classify; do
    case " $entries " in *" $entry "*) ;; *) continue ;; esac
    sizes=(--size batch=2 --size seq=7)
    [ $entry = prefill ] && sizes=(--size seq=5)
    [ $entry = decode ] && sizes=()
    check "$name" "$file" $entry "${sizes[@]}" || good=0
  done
  # A classifier of one class has gradients of zero, which are nothing but rounding.
  if [[ " $entries " == *" loss "* && $name != *_cross ]]; then
    "$tools/genesis-opt" "$file" --train adamw,lr=1e-4 -o "$folder/train.genesis" >/dev/null 2>&1 &&
      { check "$name" "$folder/train.genesis" train_step --size batch=2 --size seq=7 || good=0; }
  fi
  [ $good = 1 ] && passed=$((passed + 1)) || failed=$((failed + 1))
done
echo "$passed checkpoints agree, $failed do not"
[ $failed = 0 ]
