#!/usr/bin/env python3
"""Measures how long training stands still for checkpoints.

    python3 bench/gpu/checkpoints.py BUILD_DIR [--device cuda] [--layers 24] [--steps 100] [--every 20] [--folder DIR]

Trains the layers of Qwen2.5-0.5B in bf16 on bytes of text (24 layers: a checkpoint of 4.3 GB) twice, without and
with checkpoints, and prints each standstill of the second run and the steps around it. The two trained models must
be identical to the byte. --folder chooses the disk (three checkpoints and two models must fit on it).
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

from training_run import read_rows, run

WIDTH = dict(hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2)
SMALL = dict(hidden_size=128, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2)


def same_bytes(a, b):
    return subprocess.run(["cmp", a, b]).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--small", action="store_true", help="narrow layers, to try the script without a GPU")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--folder")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        def path(name):
            return os.path.join(folder, name)

        settings = {**(SMALL if flags.small else WIDTH), "num_hidden_layers": flags.layers, "max_position_embeddings": flags.seq}
        run(flags.build, "genesis-build", "qwen2", "-o", path("m"), *(x for k, v in settings.items() for x in ("--set", f"{k}={v}")))
        run(flags.build, "genesis-opt", path("m"), "--train", "adamw,clip=1.0", "--cast", "bf16", "-o", path("t"))
        words = random.Random(1).choices(["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"], k=400000)
        with open(path("text.txt"), "w") as text:
            text.write(" ".join(words))
        train = ["train", path("t"), "--device", flags.device, "--data", path("text.txt"), "--batch", flags.batch, "--seq",
                 flags.seq, "--steps", flags.steps, "--quiet", "--json"]
        run(flags.build, "genesis-run", *train, "--metrics", path("plain.jsonl"), "-o", path("plain.genesis"))
        report = json.loads(run(flags.build, "genesis-run", *train, "--metrics", path("kept.jsonl"), "-o", path("kept.genesis"), "--checkpoint", path("run"),
                                "--checkpoint-every", flags.every))
        plain = read_rows(path("plain.jsonl"))
        kept = read_rows(path("kept.jsonl"))
        size = os.path.getsize(path("kept.genesis"))
        between = [b["seconds"] - a["seconds"] for a, b in zip(plain[1:], plain[2:])]
        print(f"{size / 1e9:.2f} GB a checkpoint, every {flags.every} steps; a step takes {statistics.median(between):.4f} s")
        for before, row in zip(kept, kept[1:]):
            if "checkpoint_stall_seconds" in row:
                print(f"  after step {before['step']}: stood still {row['checkpoint_stall_seconds']:.4f} s; "
                      f"from its row to the next {row['seconds'] - before['seconds']:.4f} s")
        longest = max(b["seconds"] - a["seconds"] for a, b in zip(kept[1:], kept[2:]))
        print(f"{plain[-1]['seconds']:.2f} s without checkpoints, {kept[-1]['seconds']:.2f} s with; longest standstill "
              f"{report['checkpoint_stall_seconds']:.4f} s, longest way from row to row {longest:.4f} s")
        if not same_bytes(path("plain.genesis"), path("kept.genesis")):
            sys.exit("the two trained models differ")
        print("the two trained models are the same to the byte")


if __name__ == "__main__":
    main()
