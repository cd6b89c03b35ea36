#!/usr/bin/env python3
"""Measures mixtures of experts on a GPU: Qwen3-30B-A3B, cut to a few layers and whole in q4, beside transformers in one run.

    python3 bench/gpu/experts.py BUILD_DIR [--only peer,train,decode,q4,profile] [--layers 4] [--optimizer adamw,moments=8bit] [--folder DIR] [--json FILE]
    python3 bench/gpu/experts.py BUILD_DIR --only deepseek_v3,gpt_oss      decoding of other families: see OTHERS
    python3 bench/gpu/experts.py BUILD_DIR --only mesh      two GPUs: experts on both of them, beside one

Weights are random; those of the whole model are zero, since writing 30 billion numbers takes longer than the measurement: all
its tokens choose the same eight experts, as one text does anyway. The share of decoding is that of the bytes that one step
must read (the experts that its tokens choose, on average over random choices, the other weights, and the head) at the read
bandwidth measured in the same run. The peer trains in bf16 throughout, and with f32 weights under autocast; its experts are
grouped_mm, compiled. Files are made while the peer compiles and runs.
"""
import argparse
import json
import os
import sys
import tempfile
import threading
import time

import torch

from models import Tools, read_gbps, seconds_of
from training_run import write_json

SHAPE = dict(vocab_size=151936, hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768, num_experts=128,
             num_experts_per_tok=8, head_dim=128, num_attention_heads=32, num_key_value_heads=4)
BATCH, SEQ, POSITION, TEXTS = 4, 2048, 512, 32

# The sizes of DeepSeek-V3 with 32 of its 256 experts, all of them in layers with experts, and of gpt-oss-20b.
OTHERS = dict(
    deepseek_v3=dict(vocab_size=129280, hidden_size=7168, intermediate_size=18432, moe_intermediate_size=2048, num_experts=32, num_experts_per_tok=8,
                     num_attention_heads=128, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                     first_k_dense_replace=0, n_group=8, topk_group=4, routed_scaling_factor=2.5),
    gpt_oss=dict(vocab_size=201088, hidden_size=2880, intermediate_size=2880, num_experts=32, num_experts_per_tok=4, num_attention_heads=64,
                 num_key_value_heads=8, head_dim=64))


def settings(layers, **more):
    return {**SHAPE, "num_hidden_layers": layers, "norm_topk_prob": "true", "max_position_embeddings": SEQ, **more}


def bytes_of_decoding(layers, texts, bytes_per_weight, head_bytes):
    """Returns the bytes of weights that a step of decoding must read: of the experts those that some token chooses."""
    hidden, heads, keys = SHAPE["hidden_size"], SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"]
    attention = hidden * SHAPE["head_dim"] * (2 * heads + 2 * keys)
    experts, chosen = SHAPE["num_experts"], SHAPE["num_experts_per_tok"]
    touched = experts * (1 - (1 - chosen / experts) ** texts)
    expert = 3 * hidden * SHAPE["moe_intermediate_size"]
    return layers * ((attention + touched * expert) * bytes_per_weight + 2 * hidden * experts) + SHAPE["vocab_size"] * hidden * head_bytes


def weights_of_attention(kind):
    """Returns how many weights of a layer of OTHERS its attention has; DeepSeek-V3's expert that all tokens use counts among them."""
    s = OTHERS[kind]
    hidden, heads = s["hidden_size"], s["num_attention_heads"]
    if kind == "gpt_oss":
        return hidden * s["head_dim"] * (2 * heads + 2 * s["num_key_value_heads"])
    key, value, short = s["qk_nope_head_dim"], s["v_head_dim"], s["kv_lora_rank"]
    queries = s["q_lora_rank"] * (hidden + heads * (key + s["qk_rope_head_dim"]))
    return queries + hidden * (short + s["qk_rope_head_dim"]) + heads * ((key + value) * short + value * hidden) + 3 * hidden * s["moe_intermediate_size"]


def bytes_of_other(kind, layers, texts):
    """Returns what bytes_of_decoding does, for a family of OTHERS in bf16."""
    s = OTHERS[kind]
    experts, hidden = s["num_experts"], s["hidden_size"]
    touched = experts * (1 - (1 - s["num_experts_per_tok"] / experts) ** texts)
    expert = 3 * hidden * s.get("moe_intermediate_size", s["intermediate_size"])
    return 2 * (layers * (weights_of_attention(kind) + touched * expert + hidden * experts) + s["vocab_size"] * hidden)


def optimizers(flags):
    """Returns the optimizers of training, by file; that of `mesh` is the first one."""
    return {f"train{i or ''}.genesis": optimizer for i, optimizer in enumerate(flags.optimizer or ["adamw"])}


def make_files(tools, flags, errors):
    """Writes the models of the steps that were asked for."""
    def make(step, name, opt, **more):
        if not set(step.split()) & set(flags.only):
            return
        start = time.perf_counter()
        try:
            no_values = more.pop("no_values", False)
            kind = more.pop("kind", "qwen3_moe")
            sizes = settings(more.pop("layers", flags.layers), **more) if kind == "qwen3_moe" else {
                **OTHERS[kind], "num_hidden_layers": flags.layers, "max_position_embeddings": SEQ, **more}
            words = [word for key, value in sizes.items() for word in ("--set", f"{key}={value}")]
            tools.run("genesis-build", kind, "-o", tools.path(name + "0"), "--quiet", *words, *(["--no-values"] if no_values else []))
            tools.run("genesis-opt", tools.path(name + "0"), "-o", tools.path(name), "--quiet", *opt)
            os.remove(tools.path(name + "0"))
        except Exception as error:
            errors.update(dict.fromkeys(step.split(), str(error)))
        print(f"  {name}: made in {time.perf_counter() - start:.0f} s", flush=True)

    training = {name: ["--train", optimizer + ",lr=1e-4,clip=1.0", "--cast", "bf16"] for name, optimizer in optimizers(flags).items()}
    inference, q4 = ["--inference"], ["--quantize", "q4", "--inference"]
    lanes = [*([("train mesh", name, options, {})] for name, options in training.items()),
             [("decode mesh", "one.genesis", inference, dict(dtype="bf16")), ("q4", "q4_few.genesis", q4, dict(dtype="bf16"))],
             [("decode mesh", "many.genesis", inference, dict(dtype="bf16", batch=TEXTS))],
             [("q4", "q4_few_zero.genesis", q4, dict(dtype="bf16", no_values=True)),
              ("q4", "q4.genesis", q4, dict(dtype="bf16", no_values=True, layers=48))],
             # One text reads as many experts, whichever it chooses; of many texts each must choose its own.
             *([(kind, f"{kind}_one.genesis", inference, dict(kind=kind, dtype="bf16", no_values=True)),
                (kind, f"{kind}_many.genesis", inference, dict(kind=kind, dtype="bf16", batch=TEXTS))] for kind in OTHERS)]
    threads = [threading.Thread(target=lambda lane=lane: [make(*job[:3], **job[3]) for job in lane]) for lane in lanes]
    for thread in threads:
        thread.start()
    return threads


def train_peer(flags, mixed):
    """Times the step of transformers, weights in bf16, or in f32 under autocast (mixed)."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
    torch.manual_seed(0)
    torch.compiler.reset()
    config = Qwen3MoeConfig(**SHAPE, num_hidden_layers=flags.layers, norm_topk_prob=True, max_position_embeddings=SEQ,
                            tie_word_embeddings=False, attn_implementation="sdpa", experts_implementation="grouped_mm")
    torch.set_default_dtype(torch.float32 if mixed else torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen3MoeForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    torch.cuda.reset_peak_memory_stats()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(SHAPE["vocab_size"], (BATCH, SEQ), device="cuda")

    def loss_of(tokens):
        with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
            return model(input_ids=tokens, labels=tokens, use_cache=False).loss

    forward = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    seconds = seconds_of(step, repeats=8)
    return {"ms": 1e3 * seconds, "tokens_per_second": BATCH * SEQ / seconds, "peak_bytes": torch.cuda.max_memory_allocated()}


def bench_peer(flags):
    result = {}
    for name, mixed in (("bf16", False), ("f32 weights", True)):
        try:
            row = result[name] = train_peer(flags, mixed)
            print(f"transformers, {name}: {row['ms']:.1f} ms, {row['tokens_per_second']:.0f} tokens/s, {row['peak_bytes'] / 2**30:.1f} GiB", flush=True)
        except Exception as error:
            result[name] = {"error": str(error)[:300]}
            print(f"transformers, {name}: {str(error)[:300]}", flush=True)
        torch.cuda.empty_cache()
    return result


def bench_train(tools, flags, results, *mesh, ranks=1, batch=BATCH, model="train.genesis"):
    """Times a training step of `batch` texts in all, which `ranks` ranks share: the input of a rank is its share."""
    tokens = tools.tokens(f"train{batch // ranks}.npy", (batch // ranks, SEQ), SHAPE["vocab_size"])
    inputs = ("--input", f"tokens={tokens}", "--input", f"targets={tokens}")
    ours = tools.bench(model, "train_step", *inputs, "--seconds", 2, *mesh)
    line = f"training {batch} x {SEQ} in all, {optimizers(flags)[model]} {' '.join(mesh)}: {ours['median_ms']:.1f} ms, {batch * SEQ / ours['median_ms'] * 1e3:.0f} tokens/s"
    if "device_peak_bytes" in ours:
        line += f", {ours['device_peak_bytes'] / 2**30:.1f} GiB"
    for name, peer in results.get("peer", {}).items():
        if "ms" in peer:
            line += f"; {batch * SEQ / ours['median_ms'] * 1e3 / peer['tokens_per_second']:.2f}x and {ours['device_peak_bytes'] / peer['peak_bytes']:.2f}x the memory of {name}"
    print(line, flush=True)
    return ours


def bench_decode_of(tools, name, texts, needed, limit, *mesh):
    tokens = tools.tokens(f"d{texts}.npy", (texts, 1), min(shape["vocab_size"] for shape in (SHAPE, *OTHERS.values())))
    ours = tools.bench(name, "decode", "--input", f"tokens={tokens}", "--input", f"position=full:{POSITION}", "--seconds", 1, *mesh)
    share = needed / (ours.get("device_ms", ours["median_ms"]) * 1e-3) * 1e-9 / limit if limit else 0
    print(f"decode, {name} {' '.join(mesh)}: {ours.get('device_ms', 0):.3f} ms on the device ({ours['median_ms']:.3f} in all), {needed / 1e9:.2f} GB to read, "
          f"{100 * share:.0f}% of {limit:.0f} GB/s; {texts / ours.get('device_ms', ours['median_ms']) * 1e3:.0f} tokens/s", flush=True)
    return {**ours, "needed_bytes": needed, "share": share}


def profile(tools, model, entry, *inputs):
    for more in ((), ("--by-op",)):
        print(tools.run("genesis-run", "profile", tools.path(model), "--entry", entry, "--device", "cuda", "--top", 14, "--runs", 3, *more, *inputs)[:3500], flush=True)


def run_steps(tools, flags, results, errors):
    limit = read_gbps() if {"decode", "q4", "mesh", *OTHERS} & set(flags.only) else 0
    steps = {
        "train": lambda: {optimizer: bench_train(tools, flags, results, model=model) for model, optimizer in optimizers(flags).items()},
        "decode": lambda: {name: bench_decode_of(tools, name, texts, bytes_of_decoding(flags.layers, texts, 2, 2), limit)
                           for name, texts in (("one.genesis", 1), ("many.genesis", TEXTS))},
        **{kind: lambda kind=kind: {name: bench_decode_of(tools, f"{kind}_{name}.genesis", texts, bytes_of_other(kind, flags.layers, texts), limit)
                                    for name, texts in (("one", 1), ("many", TEXTS))} for kind in OTHERS},
        # q4 takes 18 bytes for 32 weights, the head in q8 34.
        "q4": lambda: {name: bench_decode_of(tools, name, 1, bytes_of_decoding(layers, 1, 18 / 32, 34 / 32), limit)
                       for name, layers in (("q4_few.genesis", flags.layers), ("q4_few_zero.genesis", flags.layers), ("q4.genesis", 48))},
        "mesh": lambda: {what: run() for what, run in {
            "train_one": lambda: bench_train(tools, flags, results),
            **{f"train_two_{batch}{'_zero' if zero else ''}": lambda batch=batch, zero=zero: bench_train(
                tools, flags, results, "--mesh", "expert=2", *zero, ranks=2, batch=batch)
               for batch, zero in ((BATCH, ()), (BATCH, ("--zero", "1")), (2 * BATCH, ("--zero", "1")))},
            **{f"{name}_{ranks}": lambda name=name, texts=texts, mesh=mesh: bench_decode_of(tools, name, texts, bytes_of_decoding(flags.layers, texts, 2, 2), limit, *mesh)
               for name, texts in (("one.genesis", 1), ("many.genesis", TEXTS)) for ranks, mesh in ((1, ()), (2, ("--mesh", "expert=2")))}}.items()}}
    for name, step in steps.items():
        if name not in flags.only:
            continue
        try:
            if name in errors:
                raise RuntimeError(errors[name])
            results[name] = step()
        except Exception as error:  # the others still run
            results[name] = {"error": str(error)}
            print(f"{name}: failed: {error}", file=sys.stderr, flush=True)
        write_json(flags.json, results)
    if "profile" in flags.only:
        step = ("--size", f"batch={BATCH}", "--size", f"seq={SEQ}")
        for model, entry, inputs in (*((model, "train_step", step) for model in optimizers(flags)),
                                     ("one.genesis", "decode", ("--input", f"position=full:{POSITION}")),
                                     ("many.genesis", "decode", ("--input", f"position=full:{POSITION}", "--input", f"tokens={tools.path('d32.npy')}"))):
            if os.path.exists(tools.path(model)):
                try:
                    profile(tools, model, entry, *inputs)
                except RuntimeError as error:
                    print(error, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", default="peer,train,decode,q4,profile", type=lambda text: text.split(","))
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--optimizer", action="append", help="adamw (the default) or adamw,moments=8bit; may be repeated")
    parser.add_argument("--folder", help="where the files go, 70 GB; default: the system's folder for temporary files")
    parser.add_argument("--json", default="")
    flags = parser.parse_args()
    results, errors = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}, {}
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        tools = Tools(flags.build, folder)
        threads = make_files(tools, flags, errors)
        if "peer" in flags.only:
            results["peer"] = bench_peer(flags)
        for thread in threads:
            thread.join()
        run_steps(tools, flags, results, errors)


if __name__ == "__main__":
    main()
