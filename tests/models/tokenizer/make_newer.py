#!/usr/bin/env python3
"""Makes newer.json beside it: the behavior of `tokenizers` 0.23.3 for characters newer than Unicode 14.0.

Needs `pip install tokenizers` and a Python of Unicode 14.0 (3.11); the suite needs neither: it reads the results.
Usage: tests/models/tokenizer/make_newer.py
"""
import json
import random
import sys
import unicodedata
from pathlib import Path

from make_fixtures import LLAMA, QWEN
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "models/tokenizer"))
import newer_tables  # noqa: E402

# Parts of syllables, characters that are reordered or composed since Unicode 10, and old marks that could be
# reordered across them.
FORMS = [chr(code) for first, last in [(0x7fd, 0x7fd), (0x897, 0x89f), (0x1abf, 0x1ac4), (0x1df6, 0x1dfa), (0x10f46, 0x10f50),
                                       (0x11382, 0x11385), (0x113b8, 0x113c9), (0x11930, 0x11938), (0x105c9, 0x105e4),
                                       (0x1611e, 0x16129), (0x16d63, 0x16d6a), (0x1e6e3, 0x1e6f5)] for code in range(first, last + 1)]
MARKS = list("aeo\u0301\u0307\u0323\u0334\u0345\u05b0\u3099\u11a7\u1161\u1112\uac00")
LETTERS = (0x1c89, 0x2ebf0, 0xa7da, 0x105c0, 0x13ca6, 0x31350)


def class_of(name):
    """Returns the first character, and a checksum (FNV-1a) of all characters."""
    codes, checksum = list(newer_tables.members(name)), 0x811c9dc5
    for byte in "".join(map(chr, codes)).encode():
        checksum = (checksum ^ byte) * 0x01000193 & 0xffffffff
    return [codes[0], checksum]


def tokenizer_of(kind, lines):
    tokenizer = Tokenizer(models.BPE())
    split = [] if kind == "gpt2" else [pre_tokenizers.Split(Regex(QWEN if kind == "qwen" else LLAMA), "isolated")]
    split += [pre_tokenizers.Digits(individual_digits=True)] if kind == "digits" else []
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split + [byte_level])
    if kind == "qwen":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_tokens([AddedToken("word", single_word=True, normalized=False)])
    return tokenizer


def newer_pool():
    """Returns characters that `tokenizers` knows and this Python does not, and some of Unicode 17, which neither knows."""
    known = {code for category in newer_tables.CATEGORIES for code in newer_tables.members(category)}
    later = [0x88f, 0x1acf, 0x10940, 0x11de0, 0x11de5, 0x16ff4, 0x323b0]
    return [chr(code) for code in sorted(known) if unicodedata.category(chr(code)) == "Cn"] + list(map(chr, later))


def texts(pool):
    rng = random.Random(3)
    words = [(chr(code) + "e word ") * 2 for code in LETTERS]
    kinds = [lambda: rng.choice(pool), lambda: rng.choice(pool) + rng.choice("ae1,"), lambda: " " + rng.choice(pool) * 2,
             lambda: rng.choice(FORMS) + rng.choice(MARKS), lambda: "word" + rng.choice(pool), lambda: rng.choice(" \n1'")]
    return words + ["".join(rng.choice(kinds)() for _ in range(40)) for _ in range(12)]


def main():
    assert unicodedata.unidata_version == "14.0.0", "a Python of Unicode 14 is needed: 3.11"
    rng, all_texts = random.Random(4), texts(newer_pool())
    classes = newer_tables.CATEGORIES + ["L", "M", "N", "P", "S", "Z"]
    forms = ["".join(rng.choices(FORMS + MARKS, k=8)) for _ in range(400)]
    compose = normalizers.NFC().normalize_str
    expected = {"classes": {name: class_of(name) for name in classes},
                "forms": [[form, compose(form)] for form in forms], "texts": all_texts}
    for kind in ("gpt2", "qwen", "llama", "digits"):
        tokenizer = tokenizer_of(kind, all_texts * 4)
        expected[kind] = {"file": json.loads(tokenizer.to_str()), "ids": [tokenizer.encode(text).ids for text in all_texts]}
    (HERE / "newer.json").write_text(json.dumps(expected, separators=(",", ":")))


if __name__ == "__main__":
    main()
