#!/usr/bin/env python3
"""Makes training.json beside it: small texts, and the tokenizers that the library `tokenizers` learns from them as files.

Needs `pip install tokenizers`; the suite does not: it reads the results.
Usage: tests/models/tokenizer/make_training.py
"""
import json
import random
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from make_fixtures import LLAMA, QWEN

HERE = Path(__file__).parent
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def untrained(pattern):
    tokenizer = Tokenizer(models.BPE())
    if pattern == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return tokenizer
    split = pre_tokenizers.Split(Regex({"llama3": LLAMA, "qwen2": QWEN}.get(pattern, pattern)), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    if pattern == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def learnt(texts, pattern, vocab_size, special, min_frequency):
    tokenizer = untrained(pattern)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(i) for i in range(len(texts))]
        for file, text in zip(files, texts):
            file.write_bytes(text.encode())
        trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=special,
                                      initial_alphabet=ALPHABET, show_progress=False)
        tokenizer.train([str(file) for file in files], trainer)
    file = json.loads(tokenizer.to_str())
    vocab = file["model"]["vocab"]
    first = 257 if special == ["<|endoftext|>"] else 0  # the bytes come first, the same in all cases
    return {"size": len(vocab), "first": first, "tokens": sorted(vocab, key=vocab.get)[first:], "merges": file["model"]["merges"], "added": file["added_tokens"]}


def texts():
    rng = random.Random(3)
    old = unicodedata.ucd_3_2_0
    pool = [chr(c) for c in range(0x30000) if old.category(chr(c)) not in ("Cn", "Cs", "Co")]
    cjk = [chr(0x4e00 + i) for i in range(12)] + [chr(0x3042 + i) for i in range(6)] + ["\uff0c", "\u3002\n"]
    return {"nothing": [""], "one_word": ["hello"], "runs": ["aaaaaaaaaaaaa aaaa aaaaa aaaaaaaaaaaaaaaaa\n" * 2],
            # Tokens arise from several merges, so that pairs occur again after they were merged.
            "abc": [" ".join("".join(rng.choices("abc", k=rng.randrange(1, 60))) for _ in range(120))],
            "cjk": ["".join(rng.choices(cjk, k=800)) + "\u4f60\u597d\u4e16\u754c" * 20],
            "emoji": ["".join(rng.choices("\U0001f600\U0001f468\u200d\U0001f469\u2764\ufe0f e\u0301\ud55c\uae00", k=600))],
            "lines": ["one two\r\nthree\r\r\n\n\n  four\tfive\r\n" * 20 + "1234567 89 10,000", "", "two files\n"],
            "characters": ["".join(rng.choices(pool, k=2500))]}


def main():
    cases = []
    for name, corpus in texts().items():
        for pattern in ("gpt2", "llama3", "qwen2", r"\p{L}+|\s+"):
            case = {"name": name, "texts": corpus, "pattern": pattern, "vocab_size": 360, "special": ["<|endoftext|>"], "min_frequency": 0}
            cases.append(case)
    cases.append({**cases[0], "special": []})
    lines = texts()["lines"]
    cases.append({"name": "special tokens that are letters", "texts": lines, "pattern": "gpt2", "vocab_size": 300,
                  "special": ["<a>", "!", "two", "x y"], "min_frequency": 0})
    cases.append({"name": "min_frequency", "texts": lines, "pattern": "gpt2", "vocab_size": 300, "special": [], "min_frequency": 21})
    for case in cases:
        case["expected"] = learnt(case["texts"], case["pattern"], case["vocab_size"], case["special"], case["min_frequency"])
    (HERE / "training.json").write_text(json.dumps(cases, separators=(",", ":")))


if __name__ == "__main__":
    main()
