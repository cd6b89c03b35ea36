#!/usr/bin/env python3
"""Measures the gain of each specialized CUDA kernel implementation: times the same model with and without it, in turn.

    python3 bench/gpu/implementations.py BUILD_DIR [--only gemv ranges ...] [--rounds 3] [--json FILE]

Prints one line per case: ms on the device with the implementation, without it (--disable), and their ratio; each is the median of
`--rounds` processes. A case can name implementations (`beside`) that are switched off both times, since a better one would hide
the measured one: otherwise decoding is one megakernel. docs/kernels.md has its figures from here. --device cpu is a dry run on
tiny models; its figures mean nothing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from training_run import write_json

QWEN = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
            max_position_embeddings=4096)
GPT2 = dict(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12)
TINY = {"qwen2": dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                      max_position_embeddings=4096),
        "gpt2": dict(vocab_size=256, n_positions=1024, n_embd=64, n_layer=1, n_head=2)}
MEGAKERNEL, FUSED_CACHE, RESIDENT = "megakernel", "fuse_cached_attention", "kernel:skinny_resident"
# Implementation: cases of (run, model, what else is switched off). A run is: decode BATCH POSITION, prefill BATCH SEQ, train
# BATCH SEQ, or packed BATCH SEQ (training on rows of several texts). A model xN has a cache for N texts.
CASES = {
    "megakernel": [("decode 1 64", "qwen", ())],
    "gemv": [("decode 1 64", "qwen", (MEGAKERNEL,)), ("decode 4 64", "qwen x4", (RESIDENT,))],
    "gemv_prefetch": [("decode 1 64", "qwen", (MEGAKERNEL,)), ("decode 4 64", "qwen x4", (RESIDENT,))],
    "skinny_gemm": [("decode 32 1000", "qwen x32", (RESIDENT,)), ("decode 8 64", "qwen x8", (RESIDENT,))],
    "row_tiles": [("decode 64 1000", "qwen x64", ()), ("decode 128 1000", "qwen x128", ())],
    "skinny_resident": [("decode 2 64", "qwen x2", ()), ("decode 8 64", "qwen x8", ()), ("decode 32 1000", "qwen x32", ())],
    "grouped": [("decode 32 1000", "qwen x32", ())],
    "quantized_gemv": [("decode 1 64", "q8", (MEGAKERNEL,)), ("decode 1 64", "q4", (MEGAKERNEL,))],
    "quantized_gemv_stream": [("decode 1 64", "q8", (MEGAKERNEL,)), ("decode 1 64", "q4", (MEGAKERNEL,))],
    "one_start": [("decode 1 64", "qwen", (MEGAKERNEL,)), ("decode 1 1000", "qwen", (MEGAKERNEL,))],
    "cublas_lt": [("train 8 1024", "qwen train", ())],
    "fused": [("train 8 1024", "qwen train", ())],
    "side_stream": [("train 8 1024", "qwen train", ())],
    "split_keys": [("decode 1 1000", "qwen", (MEGAKERNEL, FUSED_CACHE)), ("decode 1 4000", "qwen", (MEGAKERNEL, FUSED_CACHE))],
    "bias_grad_epilogue": [("train 32 1024", "gpt2 train", ()), ("train 8 1024", "qwen train", ())],
    "exponentials": [("train 8 1024", "qwen train", ())],
    "hopper_d64": [("train 8 1024", "qwen train", ())],
    "swiglu_epilogue": [("train 8 1024", "qwen train", ())],
    "swiglu_grad_epilogue": [("train 8 1024", "qwen train", ())],
    "use_weight_halves": [("train 8 1024", "qwen train", ())],
    "ranges": [("packed 8 1024", "qwen packed", ())],
}
PASSES = {"megakernel", "side_stream", "use_weight_halves"}  # switched off by their own names, not as kernels
# Kernels to switch off together with an implementation: those for certain GPUs, which serve the same nodes.
WITH = {"gemv": ["kernel:gemv_prefetch"], "quantized_gemv": ["kernel:quantized_gemv_stream"]}


def add_flags(parser, cases, seconds):
    """Adds the options that choose cases and timing; `seconds` is the default time of each process."""
    parser.add_argument("--only", nargs="+", choices=list(cases), default=list(cases))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=seconds, help="how long each process measures")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json")


def in_turn(rounds, measures):
    """Returns the results of `measures` by name. Every round runs them one after the other, so that all run at the same
    clocks."""
    given = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            given[name].append(measure())
    return given


def kind_of(model):
    return "gpt2" if model.startswith("gpt2") else "qwen2"


class Bench:
    """Times entry points of models with the tools of a build. Model files are made in the folder; the tools' cache is a folder
    below it."""

    def __init__(self, build, folder, device, seconds, cache="cache"):
        self.build, self.folder, self.device, self.seconds = build, folder, device, seconds
        self.environment = {**os.environ, "XDG_CACHE_HOME": os.path.join(folder, cache)}

    def tool(self, name, *words):
        done = subprocess.run([os.path.join(self.build, "tools", name), *map(str, words)], capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"{name} {' '.join(map(str, words))}: {done.stderr.strip()[-600:]}")
        return done.stdout

    def shape(self, kind):
        return TINY[kind] if self.device == "cpu" else {"qwen2": QWEN, "gpt2": GPT2}[kind]

    def model(self, name):
        """Returns the file of a model, made on first use."""
        path = os.path.join(self.folder, name.replace(" ", "_") + ".genesis")
        if os.path.exists(path):
            return path
        if name in ("q8", "q4"):
            self.tool("genesis-opt", self.model("qwen"), "-o", path, "--quantize", name, "--quantize-head")
            return path
        kind, (_, *words) = kind_of(name), name.split()
        texts = [int(word[1:]) for word in words if word.startswith("x")]
        base = os.path.join(self.folder, f"{kind}.{texts}.f32.genesis")
        if not os.path.exists(base):
            settings = {**self.shape(kind), **({"batch": texts[0], "cache_positions": 1088} if texts else {})}
            self.tool("genesis-build", kind, "-o", base, *(word for pair in settings.items() for word in ("--set", "=".join(map(str, pair)))))
        entry = ",entry=loss_packed" if "packed" in words else ""
        training = ["--train", "adamw,lr=1e-4,clip=1.0" + entry] if "train" in words or entry else []
        self.tool("genesis-opt", base, "-o", path, *training, "--cast", "bf16")
        return path

    def array(self, name, values):
        path = os.path.join(self.folder, name + ".npy")
        np.save(path, np.ascontiguousarray(values))
        return path

    def inputs(self, what, batch, second, vocabulary):
        draw = np.random.default_rng(1)
        if what == "decode":
            return {"tokens": self.array("token", draw.integers(0, vocabulary, (batch, 1))), "position": f"full:{second}"}
        if what == "prefill":
            return {"tokens": self.array("prompt", draw.integers(0, vocabulary, (batch, second))), "position": "zeros", "length": f"full:{second}"}
        tokens = draw.integers(0, vocabulary, (batch, second))
        inputs = {"tokens": self.array("tokens", tokens), "targets": self.array("targets", tokens)}
        if what == "packed":  # texts of 64 to 512 tokens, as in fine_tuning.py
            segments, positions = np.zeros_like(tokens), np.zeros_like(tokens)
            for row in range(batch):
                start, segment = 0, 0
                while start < second:
                    length = min(int(draw.integers(second // 16, second // 2 + 1)), second - start)
                    segments[row, start:start + length], positions[row, start:start + length] = segment, np.arange(length)
                    start, segment = start + length, segment + 1
            inputs |= {"segments": self.array("segments", segments), "positions": self.array("positions", positions)}
        return inputs

    def milliseconds(self, run, model, disabled):
        what, batch, second = run.split()
        vocabulary = self.shape(kind_of(model))["vocab_size"]
        words = [word for pair in self.inputs(what, int(batch), int(second), vocabulary).items() for word in ("--input", "=".join(pair))]
        words += [word for name in disabled for word in ("--disable", name)]
        entry = what if what in ("decode", "prefill") else "train_step"
        report = json.loads(self.tool("genesis-run", "bench", self.model(model), "--entry", entry, "--device", self.device, "--json", "--seconds", self.seconds,
                                      *words))
        return report.get("device_ms") or report["median_ms"]

    def compare(self, rounds, implementation, run, model, beside):
        """Times the run with the implementation and without it."""
        switches = [implementation if implementation in PASSES else "kernel:" + implementation, *WITH.get(implementation, [])]
        off = {"with": list(beside), "without": [*beside, *switches]}
        times = in_turn(rounds, {name: lambda off=each: self.milliseconds(run, model, off) for name, each in off.items()})
        return {"way": implementation, "run": run, "model": model, "without_besides": list(beside), "ms": statistics.median(times["with"]),
                "ms_without": statistics.median(times["without"]), "all": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    add_flags(parser, CASES, seconds=0.5)
    flags = parser.parse_args()
    rows, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(flags.build, folder, flags.device, flags.seconds)
        print(f"{'implementation':<22} {'run':<16} {'model':<12} {'with':>9} {'without':>9}  gain   besides off", flush=True)
        for implementation in flags.only:
            for case in CASES[implementation]:
                try:
                    row = bench.compare(flags.rounds, implementation, *case)
                except RuntimeError as error:  # the others still run
                    failed = True
                    print(f"{implementation:<22} {case[0]:<16} {case[1]:<12} {error}", flush=True)
                    continue
                rows.append(row)
                print(f"{implementation:<22} {row['run']:<16} {row['model']:<12} {row['ms']:9.4f} {row['ms_without']:9.4f}  {row['ms_without'] / row['ms']:.3f}x {' '.join(row['without_besides'])}",
                      flush=True)
                write_json(flags.json, rows)
    sys.exit(failed)


if __name__ == "__main__":
    main()
