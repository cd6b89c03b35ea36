#!/usr/bin/env python3
"""Measures how fast each family of decoders writes a token on a GPU, beside Qwen2's in the same run: one shape for all.

    python3 bench/gpu/families.py BUILD_DIR [--only gemma2 ...] [--hidden 2048] [--layers 12] [--rounds 3] [--json FILE]

Weights are random and bf16; one text is at position 512. Families differ in the bytes of their weights, so the figure is bytes
of all weights / time of a token, and its ratio to Qwen2's: families with other norms or products between the same weights
should lose at most a tenth. --device cpu is a dry run; its figures mean nothing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from training_run import write_json

NOT_DECODERS = {"mlp", "bert", "roberta", "xlm_roberta", "distilbert", "mpnet", "modernbert"}


def settings_of(family, flags):
    heads = flags.hidden // 128
    if family == "gpt2":
        return dict(vocab_size=32768, n_positions=1024, n_embd=flags.hidden, n_layer=flags.layers, n_head=heads, tie_word_embeddings="true", dtype="bf16")
    return dict(vocab_size=32768, hidden_size=flags.hidden, intermediate_size=flags.hidden * 11 // 4 // 256 * 256, num_hidden_layers=flags.layers,
                num_attention_heads=heads, num_key_value_heads=max(1, heads // 4), max_position_embeddings=1024, tie_word_embeddings="true", dtype="bf16")


def output_of(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def measure(family, flags, folder):
    tools, model = os.path.join(flags.build, "tools"), os.path.join(folder, family + ".genesis")
    sets = [word for key, value in settings_of(family, flags).items() for word in ("--set", f"{key}={value}")]
    output_of(f"{tools}/genesis-build", family, "-o", model, "--quiet", *sets)
    states = json.loads(output_of(f"{tools}/genesis-run", "info", model, "--json"))["states"]
    bench = [f"{tools}/genesis-run", "bench", model, "--entry", "decode", "--device", flags.device, "--json", "--seconds", flags.seconds,
             "--input", "position=full:512"]
    seconds = [1 / json.loads(output_of(*bench))["tokens_per_second"] for _ in range(flags.rounds)]
    os.remove(model)
    return {"ms": 1e3 * statistics.median(seconds), "bytes": states["parameter"]["bytes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", nargs="+", default=[], help="these families, beside qwen2")
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", default="")
    flags = parser.parse_args()
    known = json.loads(output_of(os.path.join(flags.build, "tools", "genesis-build"), "--list", "--json"))
    families = [name for name in known if name not in NOT_DECODERS and name != "qwen2" and (not flags.only or name in flags.only)]
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for family in ["qwen2"] + families:
            row = rows[family] = measure(family, flags, folder)
            row["gbps"] = row["bytes"] / row["ms"] / 1e6
            row["ratio"] = row["gbps"] / rows["qwen2"]["gbps"]
            print(f"{family:<12} {row['ms']:8.4f} ms a token, {row['bytes'] / 1e9:6.3f} GB, {row['gbps']:7.0f} GB/s, {row['ratio']:5.2f} of qwen2's",
                  flush=True)
    write_json(flags.json, rows)


if __name__ == "__main__":
    main()
