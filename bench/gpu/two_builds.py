#!/usr/bin/env python3
"""Compares two builds on one GPU: times the same entry points of the same files in turn, so that both run at the same clocks.

    python3 bench/gpu/two_builds.py OLD_BUILD NEW_BUILD [--only train gpt2 ...] [--one-cache] [--rounds 3] [--json FILE]

Prints one line per case: ms on the device with each build, the median of `--rounds` processes, and new / old. The old build makes
the files. Each build keeps its tuned products and compiled kernels in its own folder, or with --one-cache in a shared one, since
a product that is tuned again may use another algorithm. --device cpu is a dry run on tiny models; its figures mean nothing.
"""
import argparse
import statistics
import tempfile

from training_run import write_json
from implementations import FUSED_CACHE, MEGAKERNEL, Bench, add_flags, in_turn

CASES = {  # run and model, as in implementations.py; what is switched off
    "train": ("train 8 1024", "qwen train", ()),
    "packed": ("packed 8 1024", "qwen packed", ()),
    "gpt2": ("train 32 1024", "gpt2 train", ()),
    "prefill": ("prefill 1 2048", "qwen", ()),
    "decode": ("decode 1 64", "qwen", ()),
    "decode_steps": ("decode 1 64", "qwen", (MEGAKERNEL,)),
    "decode_split": ("decode 1 4000", "qwen", (MEGAKERNEL, FUSED_CACHE)),
    "decode_q8": ("decode 1 64", "q8", ()),
    "decode_q8_steps": ("decode 1 64", "q8", (MEGAKERNEL,)),
    "decode_q4_steps": ("decode 1 64", "q4", (MEGAKERNEL,)),
    "decode_4_texts": ("decode 4 64", "qwen x4", ()),
    "decode_8_texts": ("decode 8 64", "qwen x8", ()),
    "decode_16_texts": ("decode 16 1000", "qwen x16", ()),
    "decode_32_texts": ("decode 32 1000", "qwen x32", ()),
}


def compare(flags, name):
    run, model, disabled = CASES[name]
    times = in_turn(flags.rounds, {build: lambda bench=bench: bench.milliseconds(run, model, disabled) for build, bench in flags.benches.items()})
    old, new = (statistics.median(each) for each in times.values())
    return {"case": name, "old_ms": old, "new_ms": new, "ratio": new / old, "all": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--one-cache", action="store_true")
    add_flags(parser, CASES, seconds=1)
    flags = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        flags.benches = {which: Bench(build, folder, flags.device, flags.seconds, cache="both" if flags.one_cache else which) for which, build in (("old", flags.old), ("new", flags.new))}
        print(f"{'case':<18} {'old ms':>9} {'new ms':>9}  new / old", flush=True)
        for name in flags.only:
            rows.append(compare(flags, name))
            print("{case:<18} {old_ms:9.4f} {new_ms:9.4f}  {ratio:.3f}".format(**rows[-1]), flush=True)
            write_json(flags.json, rows)


if __name__ == "__main__":
    main()
