#!/usr/bin/env python3
"""Compares Genesis with PyTorch and transformers on whole models on one GPU, in one run.

    python3 bench/gpu/models.py BUILD_DIR [--json FILE] [--only train,prefill,decode,gpt2] [--layers N]

Qwen2.5-0.5B and GPT-2 124M with random weights: speed does not depend on the values. Model FLOPs are 6 per
token and parameter in a matrix product, plus half of the products of attention, since it is causal; MFU is their share of
the GPU's dense bf16 peak in its datasheet (989 TFLOP/s for H100 SXM and H200), as others report it.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

PEAK = 989e12
QWEN = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
            num_key_value_heads=2, max_position_embeddings=4096)
GPT2 = dict(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12)


class Tools:
    """Runs the tools of a build as processes and reads their JSON results. Their cache on disk is in `folder`, so the first start
    is cold."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, tool, *args):
        done = subprocess.run([os.path.join(self.build, "tools", tool), *map(str, args)], capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"{tool} {' '.join(map(str, args))}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def build_model(self, kind, settings, output):
        self.run("genesis-build", kind, "-o", self.path(output), *(x for k, v in settings.items() for x in ("--set", f"{k}={v}")))

    def optimize(self, source, output, *args):
        self.run("genesis-opt", self.path(source), "-o", self.path(output), *args)

    def tokens(self, name, shape, vocabulary):
        np.save(self.path(name), np.random.default_rng(1).integers(0, vocabulary, shape, dtype=np.int64))
        return self.path(name)

    def bench(self, model, entry, *args):
        start = time.perf_counter()
        output = self.run("genesis-run", "bench", self.path(model), "--entry", entry, "--device", "cuda", "--json", *args)
        report = json.loads(output[output.index("{"):])  # NCCL may say its version before
        report["process_seconds"] = time.perf_counter() - start
        return report


def train_flops(parameters, layers, hidden, batch, seq):
    return 6 * parameters * batch * seq + 3 * 2 * 2 * batch * seq * seq / 2 * hidden * layers


def seconds_of(run, repeats=10, warmup=3):
    for _ in range(warmup):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def qwen_torch(layers, attention="sdpa"):
    from transformers import Qwen2Config, Qwen2ForCausalLM
    torch.manual_seed(0)
    config = Qwen2Config(**{**QWEN, "num_hidden_layers": layers}, rope_theta=1e6, tie_word_embeddings=True, attn_implementation=attention)
    return Qwen2ForCausalLM(config).cuda()


def torch_train(model, vocabulary, batch, seq, compiled):
    """Times the usual recipe: bf16 autocast over f32 weights, fused AdamW, clipping."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(vocabulary, (batch, seq), device="cuda")

    def loss_of(tokens):
        with torch.autocast("cuda", torch.bfloat16):
            return model(input_ids=tokens, labels=tokens, use_cache=False).loss

    forward = torch.compile(loss_of) if compiled else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    seconds = seconds_of(step)
    return {"seconds": seconds, "first_seconds": first, "tokens_per_second": batch * seq / seconds,
            "peak_bytes": torch.cuda.max_memory_allocated()}


def bench_train(tools, flags):
    batch, seq = 8, 1024
    tools.build_model("qwen2", {**QWEN, "num_hidden_layers": flags.layers}, "qwen.genesis")
    tools.optimize("qwen.genesis", "train.genesis", "--train", "adamw,lr=1e-4,clip=1.0", "--cast", "bf16")
    tokens = tools.tokens("train.npy", (batch, seq), QWEN["vocab_size"])
    inputs = ("--input", f"tokens={tokens}", "--input", f"targets={tokens}")
    cold = tools.bench("train.genesis", "train_step", *inputs, "--seconds", 5)
    warm = tools.bench("train.genesis", "train_step", *inputs, "--runs", 3)
    half = tools.bench("train.genesis", "train_step", *inputs, "--seconds", 3, "--memory-budget", cold["arena_bytes"] // 2)

    def rate(report):
        return batch * seq / report["median_ms"] * 1e3

    result = {"genesis": {**cold, "tokens_per_second": rate(cold), "cold_first_seconds": cold["first_ms"] / 1e3,
                          "warm_first_seconds": warm["first_ms"] / 1e3,
                          "held_of_plan": cold["device_peak_bytes"] / (cold["arena_bytes"] + cold["state_bytes"])},
              "half": {**half, "tokens_per_second": rate(half)}}
    model = qwen_torch(flags.layers)
    parameters = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    flops = train_flops(parameters, flags.layers, QWEN["hidden_size"], batch, seq)
    result["mfu"] = flops / (cold["median_ms"] * 1e-3) / PEAK
    result["eager"] = torch_train(model, QWEN["vocab_size"], batch, seq, False)
    result["compile"] = torch_train(model, QWEN["vocab_size"], batch, seq, True)
    ours = result["genesis"]
    for own in (ours, result["half"]):
        own["ratio"] = own["tokens_per_second"] / result["compile"]["tokens_per_second"]
        own["memory_ratio"] = own["device_peak_bytes"] / result["compile"]["peak_bytes"]
    result["ratio"], result["memory_ratio"] = ours["ratio"], ours["memory_ratio"]
    print(f"Qwen2.5-0.5B train_step {batch}x{seq} bf16: {ours['median_ms']:.1f} ms, {ours['tokens_per_second']:.0f} tokens/s, MFU {100 * result['mfu']:.1f}%; "
          f"torch.compile {result['compile']['tokens_per_second']:.0f}, eager {result['eager']['tokens_per_second']:.0f}; {result['ratio']:.2f}x of compiled; "
          f"memory {result['memory_ratio']:.2f}x; with half the arena {result['half']['tokens_per_second']:.0f} tokens/s, {result['half']['ratio']:.2f}x, "
          f"memory {result['half']['memory_ratio']:.2f}x; first step cold {cold['first_ms'] / 1e3:.1f} s, warm {warm['first_ms'] / 1e3:.1f} s")
    return result


def inference_model(tools, flags):
    if not os.path.exists(tools.path("infer.genesis")):
        tools.build_model("qwen2", {**QWEN, "num_hidden_layers": flags.layers}, "qwen.genesis")
        tools.optimize("qwen.genesis", "infer.genesis", "--cast", "bf16")
    return "infer.genesis"


def bench_prefill(tools, flags):
    seq = 2048
    ours = tools.bench(inference_model(tools, flags), "prefill", "--input", f"tokens={tools.tokens('p.npy', (1, seq), QWEN['vocab_size'])}",
                       "--input", "position=zeros", "--input", f"length=full:{seq}", "--seconds", 2)
    model = qwen_torch(flags.layers).bfloat16().eval()
    tokens = torch.randint(QWEN["vocab_size"], (1, seq), device="cuda")

    def run():
        with torch.no_grad():
            model(input_ids=tokens, use_cache=True, logits_to_keep=1)

    eager = seconds_of(run)
    print(f"prefill {seq}: {ours['median_ms']:.2f} ms; transformers eager {1e3 * eager:.2f} ms; {1e3 * eager / ours['median_ms']:.2f}x")
    return {"genesis": ours, "eager_seconds": eager, "ratio": 1e3 * eager / ours["median_ms"]}


def read_gbps():
    data = torch.rand(1 << 30, device="cuda")
    return 4 * data.numel() / seconds_of(lambda: data.sum()) * 1e-9


def decode_times(tools, model, position=64):
    return tools.bench(model, "decode", "--input", f"tokens={tools.tokens('d.npy', (1, 1), QWEN['vocab_size'])}",
                       "--input", f"position=full:{position}", "--seconds", 1)


def explain_decode(tools, flags, token_ms):
    """Derives the cost of a layer from models of two depths: kernels overlap, so a profile of single kernels would mislead."""
    few = 4
    tools.build_model("qwen2", {**QWEN, "num_hidden_layers": few}, "few.genesis")
    tools.optimize("few.genesis", "few_infer.genesis", "--cast", "bf16")
    few_ms = decode_times(tools, "few_infer.genesis")["device_ms"]
    layer_us = 1e3 * (token_ms - few_ms) / max(1, flags.layers - few)
    result = {"layer_us": layer_us, "rest_us": 1e3 * few_ms - few * layer_us, "positions": {}, "without": {}}
    for position in (1000, 4000):
        result["positions"][position] = decode_times(tools, "infer.genesis", position)["device_ms"]
    for name in ("megakernel", "fuse_norm_linear", "fuse_cached_attention", "fuse_addend", "merge_linear"):
        tools.environment["GENESIS_DISABLE"] = name
        result["without"][name] = decode_times(tools, "infer.genesis")["device_ms"]
        del tools.environment["GENESIS_DISABLE"]
    print(f"  a layer {layer_us:.1f} us, the rest {result['rest_us']:.0f} us; at position "
          + ", ".join(f"{k}: {v:.3f} ms" for k, v in result["positions"].items()) + "; without "
          + ", ".join(f"{k}: {v:.3f} ms" for k, v in result["without"].items()))
    return result


def bench_decode(tools, flags):
    ours = decode_times(tools, inference_model(tools, flags))
    model = qwen_torch(flags.layers).bfloat16().eval()
    weights = sum(p.numel() * 2 for p in model.parameters())
    limit = read_gbps()
    reached = weights / (ours["device_ms"] * 1e-3) * 1e-9
    print(f"decode: {ours['device_ms']:.3f} ms a token on the device ({ours['median_ms']:.3f} with the logits on the host), {reached:.0f} GB/s of weights = {100 * reached / limit:.0f}% of {limit:.0f} GB/s read")
    return {"genesis": ours, "weight_bytes": weights, "read_gbps": limit, "share": reached / limit,
            "parts": explain_decode(tools, flags, ours["device_ms"])}


def bench_gpt2(tools, flags):
    batch, seq = 32, 1024
    tools.build_model("gpt2", GPT2, "gpt2.genesis")
    tools.optimize("gpt2.genesis", "gpt2_train.genesis", "--train", "adamw,lr=1e-4,clip=1.0", "--cast", "bf16")
    tokens = tools.tokens("g.npy", (batch, seq), GPT2["vocab_size"])
    ours = tools.bench("gpt2_train.genesis", "train_step", "--input", f"tokens={tokens}", "--input", f"targets={tokens}", "--seconds", 4)
    parameters = 12 * GPT2["n_layer"] * GPT2["n_embd"] ** 2 + GPT2["vocab_size"] * GPT2["n_embd"]
    mfu = train_flops(parameters, GPT2["n_layer"], GPT2["n_embd"], batch, seq) / (ours["median_ms"] * 1e-3) / PEAK
    print(f"GPT-2 124M train_step {batch}x{seq} bf16: {ours['median_ms']:.1f} ms, {batch * seq / ours['median_ms'] * 1e3:.0f} tokens/s, MFU {100 * mfu:.1f}%")
    return {"genesis": ours, "mfu": mfu}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--json")
    parser.add_argument("--only", default="train,prefill,decode,gpt2")
    parser.add_argument("--layers", type=int, default=QWEN["num_hidden_layers"], help="fewer, to look at something quickly")
    flags = parser.parse_args()
    benches = {"train": bench_train, "prefill": bench_prefill, "decode": bench_decode, "gpt2": bench_gpt2}
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(flags.build, folder)
        for name in flags.only.split(","):
            try:
                results[name] = benches[name](tools, flags)
            except Exception as error:  # the others still run
                results[name] = {"error": str(error)}
                print(f"{name}: failed: {error}", file=sys.stderr, flush=True)
            torch.cuda.empty_cache()
            if flags.json:
                with open(flags.json, "w") as file:
                    json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
