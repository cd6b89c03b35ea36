#!/usr/bin/env python3
"""Times prefill or a LoRA step of Qwen2 with PyTorch and peft on the CPU, a peer of bench/language/language_model.py.

    python3 bench/peers/torch_language_model.py prefill|lora --shape vocab_size=... [...] --tokens 512 --dtype bf16 --threads 4 [--adapters f32]

Eager, with PyTorch's fused attention and AdamW. Adapters are in f32, as peft makes them for bf16 weights, or in the dtype
--adapters. Prints {"missing": why} if something is not installed.
"""
import argparse
import json
import time

try:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM
except ImportError as error:
    print(json.dumps({"missing": f"skipped, {error}"}))
    raise SystemExit(0)

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


def best(step, rounds, clock):
    step()  # allocates
    times = []
    for _ in range(rounds):
        start = clock()
        step()
        times.append(clock() - start)
    return min(times)


def prefill(model, tokens, flags):
    with torch.inference_mode():
        return best(lambda: model(tokens, use_cache=True, logits_to_keep=1), 4, CLOCKS[flags.clock])


def lora(model, tokens, flags):
    from peft import LoraConfig, get_peft_model
    config = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(model, config, autocast_adapter_dtype=flags.adapters == "f32")
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(tokens, labels=tokens, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()

    return best(step, 2, CLOCKS[flags.clock])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["prefill", "lora"])
    parser.add_argument("--shape", nargs="+", required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--dtype", choices=list(DTYPES), required=True)
    parser.add_argument("--adapters", choices=list(DTYPES), default="f32")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    flags = parser.parse_args()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(1)
    shape = {name: int(value) for name, value in (pair.split("=") for pair in flags.shape)}
    torch.set_default_dtype(DTYPES[flags.dtype])
    model = Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=True)).eval()
    torch.set_default_dtype(torch.float32)
    tokens = torch.randint(shape["vocab_size"], (1, flags.tokens))
    try:
        seconds = {"prefill": prefill, "lora": lora}[flags.what](model, tokens, flags)
    except ImportError as error:
        print(json.dumps({"missing": f"skipped, {error}"}))
        return
    print(json.dumps({"seconds": seconds, "torch": torch.__version__}))


main()
