#!/usr/bin/env python3
"""Makes the small checkpoints beside this file with transformers, and expected.json with their results by transformers.

    python3 tests/models/hugging_face/make_checkpoints.py      needs torch and transformers

Weights are random. Logits are those of the last position of one prompt, in f32, and `greedy` are the tokens after it. Models with
scaled rotations or sliding-window attention also have `long_logits` and `long_greedy`, for a text longer than their training
length. `rope` has the frequencies that transformers computes for configurations of every kind.
"""
import json
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = Path(__file__).parent
PROMPT = [5, 1, 36, 0, 7, 60, 22, 9]
LONG = [(7 * i * i + 3 * i + 5) % 61 for i in range(45)]
DECODER = dict(vocab_size=61, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None)

# Has one layer, and heads with enough pairs to distinguish the kinds of scaling.
SCALED = dict(DECODER, num_hidden_layers=1, head_dim=16)


def scaled(rope_type, **parameters):
    return dict(parameters, rope_type=rope_type, rope_theta=parameters.get("rope_theta", 100.0))


MODELS = {
    "qwen2_tied": (Qwen2Config(**DECODER, tie_word_embeddings=True, rope_theta=1e6), {}),
    "qwen2_sharded": (Qwen2Config(**DECODER, tie_word_embeddings=False, rms_norm_eps=1e-5), {"max_shard_size": "10KB"}),
    "qwen3": (Qwen3Config(**DECODER, head_dim=8, tie_word_embeddings=True), {}),
    "llama_bf16": (LlamaConfig(**DECODER, tie_word_embeddings=False), {"dtype": torch.bfloat16}),
    "gpt2": (GPT2Config(vocab_size=61, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None), {}),
    "gpt2_untied": (GPT2Config(vocab_size=61, n_positions=64, n_embd=8, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None,
                               tie_word_embeddings=False), {}),
    "llama_llama3": (LlamaConfig(**SCALED, rope_parameters=scaled(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)), {}),
    "qwen2_yarn": (Qwen2Config(**SCALED, tie_word_embeddings=True, rope_parameters=scaled(
        "yarn", factor=4.0, original_max_position_embeddings=16)), {}),
    "llama_linear": (LlamaConfig(**SCALED, tie_word_embeddings=True, rope_parameters=scaled("linear", factor=4.0)), {}),
    "llama_dynamic": (LlamaConfig(**dict(SCALED, max_position_embeddings=16),
                                  rope_parameters=scaled("dynamic", factor=2.0)), {}),
    "qwen2_sliding": (Qwen2Config(**DECODER, use_sliding_window=True, sliding_window=5,
                                  layer_types=["full_attention", "sliding_attention"]), {}),
}

# For a Llama with heads of 32 and 4096 positions.
ROPES = [
    scaled("linear", factor=2.5, rope_theta=1e4),
    scaled("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=512,
           rope_theta=5e5),
    scaled("yarn", factor=4.0, original_max_position_embeddings=1024, rope_theta=1e6),
    scaled("yarn", factor=3.0, original_max_position_embeddings=1024, truncate=False, beta_fast=16.0, beta_slow=2.0),
    scaled("yarn", factor=40.0, original_max_position_embeddings=128, mscale=0.707, mscale_all_dim=1.3),
    scaled("yarn", factor=4.0, original_max_position_embeddings=1024, attention_factor=0.75),
    scaled("yarn", factor=None, original_max_position_embeddings=1024),
    scaled("proportional", partial_rotary_factor=0.25, rope_theta=1e6),
    scaled("proportional", partial_rotary_factor=0.8, factor=8.0),
    dict(scaled("dynamic", factor=4.0, rope_theta=1e4), length=1),
    dict(scaled("dynamic", factor=4.0, rope_theta=1e4), length=10000),
]


def make(name, config, options):
    torch.manual_seed(sum(map(ord, name)))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # the usual 0.02 would make attention flat, and biases and norms would have no effect
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + (1 if weight.dim() == 1 and "norm" in name else 0))
    dtype = options.pop("dtype", torch.float32)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = model.to(torch.float32)
    count = 12 if config.max_position_embeddings == 64 else 24
    expected = {"logits": last_logits(model, PROMPT), "greedy": greedy(model, PROMPT, count)}
    if is_special(config):
        expected |= {"long_logits": last_logits(model, LONG), "long_greedy": greedy(model, LONG, 16)}
    return expected


@torch.no_grad()
def last_logits(model, tokens):
    return [float(x) for x in model(torch.tensor([tokens])).logits[0, -1]]


@torch.no_grad()
def greedy(model, prompt, count):
    tokens = list(prompt)
    step = model(torch.tensor([tokens]), use_cache=True)
    for _ in range(count):
        tokens.append(int(step.logits[0, -1].argmax()))
        step = model(torch.tensor([tokens[-1:]]), past_key_values=step.past_key_values, use_cache=True)
    return tokens[len(prompt):]


def is_special(config):
    parameters = getattr(config, "rope_parameters", None) or {}
    return parameters.get("rope_type", "default") != "default" or getattr(config, "use_sliding_window", False)


def rope(parameters):
    parameters = dict(parameters)
    length = parameters.pop("length", None)
    config = LlamaConfig(hidden_size=64, num_attention_heads=2, num_key_value_heads=2, intermediate_size=64,
                         vocab_size=61, max_position_embeddings=4096, rope_parameters=dict(parameters))
    frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, seq_len=length)
    return {"parameters": parameters, "length": length or 0, "frequencies": [float(f) for f in frequencies],
            "attention_factor": float(factor)}


def main():
    expected = {"prompt": PROMPT, "long": LONG, "models": {name: make(name, *rest) for name, rest in MODELS.items()},
                "rope": [rope(parameters) for parameters in ROPES]}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
