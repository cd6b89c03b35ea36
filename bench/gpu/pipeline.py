#!/usr/bin/env python3
"""Compares training a Qwen2 as stages of a pipeline on the GPUs of a host with one GPU and with data-parallel ranks.

    python3 bench/gpu/pipeline.py BUILD_DIR [--gpus 2] [--layers 24] [--micro-batches 8] [--steps 16] [--json FILE]

First checks correctness: compares the losses of a small f32 model on one GPU and in stages. Then measures speed with the shape of
Qwen2.5-0.5B with an untied head, in bf16, and micro-batches of 2 x 1024 tokens: tokens/s of all GPUs, and the peak memory of a
rank. Prints a line for each as soon as it is done. The last lines, from genesis-opt --check, give the share of the time that
stages wait.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

SMALL = dict(vocab_size=2000, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, tie_word_embeddings="false")
QWEN = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2,
            max_position_embeddings=1024, tie_word_embeddings="false")
GIB = 1 << 30


def run(flags, tool, *words):
    """Returns the standard output, or why there is none."""
    command = [os.path.join(flags.build, "tools", tool), *map(str, words)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=flags.limit, env={**os.environ, "NCCL_NVLS_ENABLE": "0"})
    except subprocess.TimeoutExpired:
        return None, f"took more than {flags.limit} s"
    return (done.stdout, None) if done.returncode == 0 else (None, done.stderr.strip()[-800:])


def make(flags, folder, name, settings, options, words=()):
    model, training = os.path.join(folder, name + ".genesis"), os.path.join(folder, name + ".train.genesis")
    for tool, args in (("genesis-build", ["qwen2", "-o", model, *(x for k, v in settings.items() for x in ("--set", f"{k}={v}"))]),
                       ("genesis-opt", [model, "-o", training, "--train", options, *words])):
        _, why_not = run(flags, tool, *args)
        if why_not:
            sys.exit(f"{tool}: {why_not}")
    os.remove(model)
    return training


def make_tokens(folder, vocabulary, samples, seq):
    tokens = np.random.default_rng(1).integers(0, vocabulary, (samples, seq + 1), dtype=np.int64)
    files = {"tokens": tokens[:, :-1], "targets": tokens[:, 1:]}
    for name, values in files.items():
        np.save(os.path.join(folder, name + ".npy"), np.ascontiguousarray(values))
    return [x for name in files for x in ("--data", f"{name}={os.path.join(folder, name + '.npy')}")]


def train(flags, folder, training, data, batch, steps, mesh):
    metrics = os.path.join(folder, f"metrics-{mesh or 'one'}.jsonl")
    out, why_not = run(flags, "genesis-run", "train", training, *data, "--batch", batch, "--steps", steps, "--device", "cuda", "--metrics", metrics,
                       "--json", *(["--mesh", mesh] if mesh else []))
    if why_not:
        return {"failed": why_not}
    with open(metrics) as file:
        rows = [json.loads(line) for line in file]
    warm = min(6, len(rows) - 2)
    seconds = (rows[-1]["seconds"] - rows[warm]["seconds"]) / (len(rows) - 1 - warm)
    return {"losses": [row["loss"] for row in rows], "seconds": seconds, "held_bytes": json.loads(out)["device_peak_bytes"]}


def compare(flags, folder, report):
    training = make(flags, folder, "small", SMALL, "adamw,lr=1e-3,clip=1.0,accumulate=4")
    data = make_tokens(folder, SMALL["vocab_size"], 64, 64)
    alone = train(flags, folder, training, data, 8, 20, "")
    for mesh in (f"pipeline={flags.gpus}",):
        row = train(flags, folder, training, data, 8, 20, mesh)
        failed = alone.get("failed") or row.get("failed")
        worst = None if failed else max(abs(a - b) / abs(b) for a, b in zip(row["losses"], alone["losses"]))
        report["small"] = {"failed": failed, "worst": worst}
        print(f"f32, 20 steps, {mesh}: " + (failed or f"losses differ from one GPU's by {worst:.1e} at most"), flush=True)


def measure(flags, folder, report):
    micro = flags.micro_batches
    settings = {**QWEN, "num_hidden_layers": flags.layers}
    training = make(flags, folder, "large", settings, f"adamw,lr=1e-4,clip=1.0,accumulate={micro}", ["--cast", "bf16"])
    batch = 2 * micro
    data = make_tokens(folder, QWEN["vocab_size"], 4 * batch * flags.gpus, 1024)
    for mesh in ("", f"data={flags.gpus}", f"pipeline={flags.gpus}"):
        mine = batch * (flags.gpus if mesh.startswith("data") else 1)
        row = train(flags, folder, training, data, mine, flags.steps, mesh)
        name = mesh or "one GPU"
        if "failed" in row:
            print(f"{name}: {row['failed']}", flush=True)
        else:
            row["tokens_per_second"] = mine * 1024 / row["seconds"]
            print(f"{name:12} {1e-3 * row['tokens_per_second']:7.1f} k tokens/s  {1e3 * row['seconds']:7.1f} ms a step  "
                  f"{row['held_bytes'] / GIB:6.2f} GiB on rank 0  loss {row['losses'][-1]:.5f}", flush=True)
        report[name] = row
    out, why_not = run(flags, "genesis-opt", training, "--check", "cuda", "--entry", "train_step", "--size", "batch=2", "--size", "seq=1024",
                       "--mesh", f"pipeline={flags.gpus}")
    print("\n".join(line.strip() for line in (out or why_not).splitlines() if "stage" in line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--limit", type=float, default=90, help="seconds that a part may take")
    parser.add_argument("--json")
    flags = parser.parse_args()
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        compare(flags, folder, report)
        measure(flags, folder, report)
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump(report, file, indent=1)


main()
