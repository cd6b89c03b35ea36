#!/usr/bin/env python3
"""Compares a Qwen2 of 7B's shape on all GPUs of a host with tensor parallelism (`--mesh tensor=N`) with one GPU.

    python3 bench/gpu/tensor_parallel.py BUILD_DIR [--gpus 2] [--only decode prefill] [--rounds 3] [--layers 28] [--json FILE]

bf16, random weights. Measures decoding one text at position 64, and a prefill of 2048 tokens, on one GPU and on all in turn,
`rounds` times. Prints medians, for back-to-back runs on the device and for single runs including the host. Bars for two GPUs:
1.5x and 1.7x of one.
"""
import argparse
import json
import os
import statistics
import tempfile

from training_run import run, write_json

QWEN_7B = dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_attention_heads=28, num_key_value_heads=4,
               max_position_embeddings=4096, dtype="bf16")
ENTRIES = {"decode": ["--input", "position=full:64", "--input", "tokens=zeros", "--runs", 200],
           "prefill": ["--input", "position=zeros", "--input", "length=full:2048", "--input", "tokens=zeros", "--size", "seq=2048", "--runs", 20]}
BARS = {"decode": 1.5, "prefill": 1.7}
FIGURES = {"device_ms": "on the device", "median_ms": "with the host"}


def figures(flags, model, entry, mesh):
    words = ["bench", model, "--entry", entry, "--device", "cuda", "--json", *ENTRIES[entry], *mesh]
    found = json.loads(run(flags.build, "genesis-run", *words))
    return [found[figure] for figure in FIGURES]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=BARS, default=list(BARS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--json")
    flags = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.genesis")
        settings = {**QWEN_7B, "num_hidden_layers": flags.layers}
        run(flags.build, "genesis-build", "qwen2", "-o", model, *(x for k, v in settings.items() for x in ("--set", f"{k}={v}")))
        for entry in flags.only:
            ones, alls = [], []
            for _ in range(flags.rounds):
                ones.append(figures(flags, model, entry, []))
                alls.append(figures(flags, model, entry, ["--mesh", f"tensor={flags.gpus}"]))
            results[entry] = {"bar": BARS[entry]}
            for figure, what, of_one, of_all in zip(FIGURES, FIGURES.values(), zip(*ones), zip(*alls)):
                one, together = statistics.median_low(of_one), statistics.median_low(of_all)
                results[entry][figure] = {"one": of_one, "all": of_all, "ratio": one / together}
                print(f"{entry} {what}: one GPU {one:.3f} ms, tensor={flags.gpus} {together:.3f} ms, {one / together:.2f}x (two: {BARS[entry]}x)", flush=True)
    write_json(flags.json, results)


if __name__ == "__main__":
    main()
