#!/usr/bin/env python3
"""Prints the last page of a GPU run: each bar with the reached value, from the reports of ops.py and models.py.

    python3 bench/gpu/summary.py FOLDER     reads ops.json and models.json there, writes summary.json

A bench that did not run leaves its rows empty. Cases that miss a bar are listed with their values.
"""
import json
import os
import sys

FROM_ELEMENTS = ("16M", "64M")  # sizes of the bandwidth bar


def read(folder, name):
    try:
        with open(os.path.join(folder, name)) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


class Table:
    def __init__(self):
        self.rows = []

    def add(self, bar, required, reached, met, under=()):
        self.rows.append({"bar": bar, "required": required, "reached": reached, "met": met, "under": list(under)})

    def add_missing(self, bar, required):
        self.add(bar, required, "not measured", None)

    def add_value(self, bar, value, limit, text, at_least=True):
        """`text` is the format of the value and of the limit."""
        required = (">= " if at_least else "<= ") + text.format(limit)
        if value is None:
            self.add_missing(bar, required)
        else:
            self.add(bar, required, text.format(value), value >= limit if at_least else value <= limit)

    def add_cases(self, bar, required, rows, key, limit, text):
        """All cases have to reach the limit."""
        if not rows:
            return self.add_missing(bar, required)
        under = [f"{row['name']} {text.format(row[key]) if key in row else row.get('error', 'not run')}"
                 for row in rows if row.get(key, 0) < limit]
        self.add(bar, required, f"{len(rows) - len(under)} of {len(rows)}", not under, under)

    def show(self):
        print(f"{'bar':<72} {'required':>14} {'reached':>14}")
        for row in self.rows:
            verdict = {True: "met", False: "MISSED", None: ""}[row["met"]]
            print(f"{row['bar']:<72} {row['required']:>14} {row['reached']:>14}  {verdict}")
            for name in row["under"]:
                print(f"    {name}")


def add_ops(table, ops):
    rows = ops.get("rows", [])
    products = [row for row in rows if row["group"] == "matmul"]
    attention = [row for row in rows if row["group"] == "attention"]
    others = [row for row in rows if row["group"] not in ("matmul", "attention")]
    large = [row for row in others if row["group"].split()[-1] in FROM_ELEMENTS]
    table.add_cases("products, bf16 and f32, 512 to 8192 and Qwen2.5-0.5B's: torch.matmul", ">= 1.0x", products, "ratio", 1, "{:.3f}x")
    table.add_cases("ops bound by memory, 64 K to 64 M elements: PyTorch eager", ">= 1.0x", others, "ratio", 1, "{:.3f}x")
    table.add_cases("the same from 16 M elements up: bandwidth of a copy", ">= 85%", large, "of_copy", 0.85, "{:.1%}")
    table.add_cases("attention, forward and both, heads of 64 and 128, 2 K to 8 K: PyTorch", ">= 1.0x", attention, "ratio", 1, "{:.3f}x")


def add_models(table, models):
    train = models.get("train", {})
    ours, half = train.get("genesis", {}), train.get("half", {})
    table.add_value("Qwen2.5-0.5B train_step, bf16, 8 x 1024: tokens/s of torch.compile", train.get("ratio"), 1.5, "{:.2f}x")
    table.add_value("  its model FLOPs of the chip's peak", train.get("mfu"), 0.5, "{:.1%}")
    table.add_value("  its peak memory of torch.compile's", train.get("memory_ratio"), 0.6, "{:.2f}x", at_least=False)
    table.add_value("  its first step, nothing kept from before", ours.get("cold_first_seconds"), 15, "{:.1f} s", at_least=False)
    table.add_value("  its first step, tuning and kernels on disk", ours.get("warm_first_seconds"), 3, "{:.1f} s", at_least=False)
    table.add_value("  with half the arena: tokens/s of torch.compile", half.get("ratio"), 1.2, "{:.2f}x")
    table.add_value("  device memory held, of what the plan says", ours.get("held_of_plan"), 1.01, "{:.4f}", at_least=False)
    table.add_value("prefill of 2048 tokens: transformers eager", models.get("prefill", {}).get("ratio"), 1.5, "{:.2f}x")
    table.add_value("decode, batch 1, bf16: weights read, of read bandwidth", models.get("decode", {}).get("share"), 0.65, "{:.1%}")
    table.add_value("GPT-2 124M train_step, bf16, 32 x 1024: FLOPs of the chip's peak", models.get("gpt2", {}).get("mfu"), 0.41, "{:.1%}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: summary.py FOLDER")
    folder = sys.argv[1]
    ops, models = read(folder, "ops.json"), read(folder, "models.json")
    table = Table()
    add_ops(table, ops)
    add_models(table, models)
    seen = {**models, **ops}
    print(f"{seen.get('device', 'no device')}, PyTorch {seen.get('torch', '?')}")
    table.show()
    with open(os.path.join(folder, "summary.json"), "w") as file:
        json.dump(table.rows, file, indent=1)


if __name__ == "__main__":
    main()
