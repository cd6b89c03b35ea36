#!/usr/bin/env python3
"""Measures the same as bench_tokenizer with the library `tokenizers`, its peer.

It uses the same text (bench_tokenizer leaves it in its folder), regular expression and vocabulary size; the merges must be the
same too.

    RAYON_NUM_THREADS=1 python3 bench/peers/tokenizers_library.py [--folder DIR] [--json FILE]

If the library is missing, prints a message and exits with 0: Genesis itself does not need it.
"""
import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

try:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
except ImportError:
    print("the library tokenizers is missing: the comparison with it is skipped (TORCH_PYTHON names a python that has it)")
    sys.exit(0)

TOKENS = 32000


def learn(file):
    ours = json.loads((file.parent / "tokenizer.json").read_text())
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    expression = Regex(ours["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"])
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(expression, "isolated"), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=TOKENS, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    start = time.perf_counter()
    tokenizer.train([str(file)], trainer)
    seconds = time.perf_counter() - start
    same = json.loads(tokenizer.to_str())["model"]["merges"] == ours["model"]["merges"]
    return tokenizer, seconds, same


def encode(tokenizer, text):
    """Encodes texts of 1 MB one after the other on one core, and returns MB/s."""
    bits = [text[at:at + 1_000_000] for at in range(0, min(len(text), 20_000_000), 1_000_000)]
    start = time.perf_counter()
    for bit in bits:
        tokenizer.encode(bit.decode(errors="replace"))
    return 1e-6 * sum(map(len, bits)) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default=str(Path(tempfile.gettempdir()) / "genesis-bench-tokenizer"))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    file = Path(arguments.folder) / "text.txt"
    tokenizer, seconds, same = learn(file)
    speed = encode(tokenizer, file.read_bytes())
    threads = int(os.environ.get("RAYON_NUM_THREADS", os.cpu_count()))
    print(f"  tokenizers, {threads} threads: {TOKENS} tokens learnt in {seconds:.2f} s, {'the same' if same else 'OTHER'} merges; "
          f"encoding on one {speed:.1f} MB/s")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"threads": threads, "training_seconds": seconds, "same_merges": same,
                                                    "encode_mb_per_second": speed}) + "\n")


if __name__ == "__main__":
    main()
