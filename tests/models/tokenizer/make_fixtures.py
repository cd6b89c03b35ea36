#!/usr/bin/env python3
"""Makes the fixtures beside it: small vocabularies like those of GPT-2, Qwen2 and Llama 3, and texts encoded by `tokenizers`.

Needs `pip install tokenizers` and the Debian package bible-kjv; the suite needs neither: it reads the results.
Usage: tests/models/tokenizer/make_fixtures.py
"""
import json
import random
import subprocess
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
# The expressions in the models' own files. GPT-2's is that of ByteLevel.
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
SPECIAL = dict(special=True, normalized=False)
ADDED = {
    "gpt2": [AddedToken("<|endoftext|>", **SPECIAL)],
    "qwen": [AddedToken("<|endoftext|>", **SPECIAL), AddedToken("<|im_start|>", **SPECIAL), AddedToken("<|im", normalized=False),
             AddedToken("cafe\u0301", normalized=True), AddedToken("word", single_word=True, normalized=False),
             AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=True),
             AddedToken("<b>", lstrip=True, rstrip=True, **SPECIAL), AddedToken("   ", normalized=False)],
    "llama": [AddedToken("<|begin_of_text|>", **SPECIAL), AddedToken("<|eot_id|>", **SPECIAL)],
}


def untrained(kind):
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama"))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    split = pre_tokenizers.Split(Regex(QWEN if kind == "qwen" else LLAMA), "isolated")
    tokenizer.pre_tokenizer = byte_level if kind == "gpt2" else pre_tokenizers.Sequence([split, byte_level])
    if kind == "qwen":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def trained(kind, lines):
    tokenizer = untrained(kind)
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_tokens(ADDED[kind])
    if kind == "llama":
        begin = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
        template = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[begin])
        tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template])
    return tokenizer


def file_of(kind, tokenizer):
    """Returns the file in the model's own format. GPT-2's is older: the model has no type, and merges are texts, not pairs."""
    file = json.loads(tokenizer.to_str())
    if kind == "gpt2":
        model = file["model"]
        del model["type"]
        model.update(unk_token=None, continuing_subword_prefix="", end_of_word_suffix="", merges=[" ".join(m) for m in model["merges"]])
    if kind == "llama":  # a whole word that no merges produce
        file["model"]["vocab"]["\u0120zyzzyva"] = file["added_tokens"][0]["id"]
        for token in file["added_tokens"]:
            token["id"] += 1
        file["post_processor"]["processors"][1]["special_tokens"]["<|begin_of_text|>"]["ids"] = [file["added_tokens"][0]["id"]]
    return json.dumps(file, ensure_ascii=False, separators=(",", ":"))


def random_text(rng, pieces):
    """Makes texts of characters in Unicode 3.2, on which all libraries agree, and of characters at which tokenizers split."""
    old = unicodedata.ucd_3_2_0
    pool = [chr(c) for c in range(0x30000) if old.category(chr(c)) not in ("Cn", "Cs", "Co")]
    letters, numbers, marks = ([c for c in pool if old.category(c)[0] == kind] for kind in "LNM")
    spaces = list("\t\n\v\f\r \x85\xa0\u1680\u180e\u2003\u2028\u2029\u202f\u205f\u3000\u200b\x1c")
    cuts = [token.content for tokens in ADDED.values() for token in tokens] + ["'s", "'LL", "'\u017f", "caf\u00e9", "\U0001f469\u200d\U0001f680"]
    kinds = [lambda: rng.choice(pool), lambda: "".join(rng.choices(letters, k=4)), lambda: rng.choice(letters) + "".join(rng.choices(marks, k=2)),
             lambda: "".join(rng.choices(spaces, k=3)), lambda: " " * rng.randrange(1, 7), lambda: "".join(rng.choices(numbers, k=4)),
             lambda: rng.choice(cuts), lambda: "".join(chr(rng.randrange(0x1100, 0x1200)) for _ in range(3)) + chr(rng.randrange(0xac00, 0xd7a4)),
             lambda: " " + rng.choice("the and LORD unto shall begat 1611 3.14".split())]
    return "".join(rng.choice(kinds)() for _ in range(pieces))


def texts():
    rng = random.Random(1)
    return ["", " ", "\n", "a", "In the beginning God created the heaven and the earth.", "  two  spaces \n\n and\ttabs \r\n",
            "I'll we've THEY'RE it'S 'twas", "1 12 123 1234 12345 1,000.50", "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f",
            "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u2764\ufe0f", "e\u0301 a\u0323\u0302 \u1112\u1161\u11ab \uac00\u11a7x",
            "<|endoftext|><|im_start|>user\nhi<|im_end|>", "a <l> b <r>  c  <b>  d <r> <l>", "word sword word. _word \u24b6word",
            "cafe\u0301 caf\u00e9", " zyzzyva zyzzyva", "ab" * 200, "the" * 100, " " * 100, "a\0b", "\ufffd"] + [random_text(rng, 700), random_text(rng, 700)]


def main():
    bible = subprocess.run(["bible", "-f", "Genesis1:1-Malachi4:6"], check=True, capture_output=True, text=True).stdout
    lines = [line.split(" ", 1)[1] for line in bible.splitlines(True)]
    rng, expected = random.Random(2), {"texts": texts()}
    for kind in ADDED:
        file = file_of(kind, trained(kind, lines))
        (HERE / f"{kind}.json").write_text(file)
        tokenizer = Tokenizer.from_str(file)
        ids = rng.choices(range(tokenizer.get_vocab_size()), k=400)
        expected[kind] = {"ids": [tokenizer.encode(text).ids for text in expected["texts"]], "decode": ids,
                          "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                          "decoded_without_special": tokenizer.decode(ids)}
    (HERE / "expected.json").write_text(json.dumps(expected, separators=(",", ":")))


if __name__ == "__main__":
    main()
