#!/usr/bin/env python3
"""Times decoding by transformers with its static cache and torch.compile, as a peer of bench/language/generate.py --batch.

    python3 bench/peers/transformers_decode.py --config '{"hidden_size": 896, ...}' [--batch 32] [--context 1024] [--tokens 128]
                                         [--device cuda] [--dtype bf16] [--modes reduce-overhead,max-autotune-no-cudagraphs]

Qwen2 with random weights. The prompts, of --context minus half of --tokens tokens, are read without compiling; then, after a
warm-up, --tokens tokens are decoded greedily and timed as a whole. Prints a line of JSON: tokens/s of each mode, or why it
failed.
"""
import argparse
import json
import time

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, StaticCache

WARMUP = 8


def make_model(flags):
    config = Qwen2Config(**json.loads(flags.config))
    config._attn_implementation = "sdpa"
    kind = {"bf16": torch.bfloat16, "f32": torch.float32}[flags.dtype]
    torch.manual_seed(0)
    torch.set_default_dtype(kind)
    with torch.device(flags.device):
        model = Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def seconds_of_mode(flags, model, mode):
    torch.compiler.reset()
    prompt = flags.context - flags.tokens // 2 - WARMUP
    cache = StaticCache(config=model.config, max_cache_len=(flags.context + flags.tokens + 63) // 64 * 64)
    texts = torch.randint(model.config.vocab_size, (flags.batch, prompt), device=flags.device)
    token = model(texts, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1:].argmax(-1)
    step = torch.compile(lambda token: model(token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1), mode=mode)

    def decode(count):
        nonlocal token
        for _ in range(count):
            token = step(token).clone()
        return token.tolist()  # waits for the device

    decode(WARMUP)
    begin = time.perf_counter()
    decode(flags.tokens)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="of Qwen2Config, as JSON")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--modes", default="reduce-overhead,max-autotune-no-cudagraphs")
    flags = parser.parse_args()
    model, result = make_model(flags), {}
    for mode in flags.modes.split(","):
        try:
            with torch.inference_mode():
                result[mode] = flags.batch * flags.tokens / seconds_of_mode(flags, model, mode)
        except Exception as error:  # a failed peer must report why, and the other mode still counts
            result[mode] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        print(json.dumps(result), flush=True)


main()
