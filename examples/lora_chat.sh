#!/bin/sh
# Teaches a chat model with adapters (LoRA), and merges them into it: lora_chat.sh MODEL CONVERSATIONS OUT [STEPS]
#   MODEL          a .genesis file: genesis-build ~/Qwen2.5-0.5B-Instruct -o chat.genesis
#   CONVERSATIONS  JSON lines: {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
# Talk with the result by `genesis-run chat OUT`.
set -eu
[ $# -ge 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
model=$1 conversations=$2 out=$3 steps=${4:-40}

# The weights stay as they are; two small matrices beside each linear layer are trained.
genesis-run train "$model" --data "$conversations" --lora 16 --optimizer adamw,lr=2e-4,clip=1.0 --batch 1 --seq 256 --steps "$steps" -o "$out.adapted"
genesis-opt "$out.adapted" --merge-lora --inference -o "$out"
rm "$out.adapted"
