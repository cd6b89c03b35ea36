#!/usr/bin/env python3
"""Makes the small checkpoints beside this file with transformers, and expected.json with what transformers computes from them.

    python3 tests/models/hugging_face/make_checkpoints.py      needs torch and transformers

Weights are random; logits are those of the last position of one prompt, in f32, and `greedy` the tokens behind it.
"""
import json
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

HERE = Path(__file__).parent
PROMPT = [5, 1, 36, 0, 7, 60, 22, 9]
DECODER = dict(vocab_size=61, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None)

MODELS = {
    "qwen2_tied": (Qwen2Config(**DECODER, tie_word_embeddings=True, rope_theta=1e6), {}),
    "qwen2_sharded": (Qwen2Config(**DECODER, tie_word_embeddings=False, rms_norm_eps=1e-5), {"max_shard_size": "10KB"}),
    "qwen3": (Qwen3Config(**DECODER, head_dim=8, tie_word_embeddings=True), {}),
    "llama_bf16": (LlamaConfig(**DECODER, tie_word_embeddings=False), {"dtype": torch.bfloat16}),
    "gpt2": (GPT2Config(vocab_size=61, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None), {}),
}


def make(name, config, options):
    torch.manual_seed(sum(map(ord, name)))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # the usual 0.02 would leave attention flat, and biases and norms say nothing
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + (1 if weight.dim() == 1 and "norm" in name else 0))
    dtype = options.pop("dtype", torch.float32)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = model.to(torch.float32)
    tokens = list(PROMPT)
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, -1]
        for _ in range(12):
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return {"logits": [float(x) for x in logits], "greedy": tokens[len(PROMPT):]}


def main():
    expected = {"prompt": PROMPT, "models": {name: make(name, *rest) for name, rest in MODELS.items()}}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
