#!/usr/bin/env python3
"""Makes sentence_pieces/: a small tokenizer.model of each kind with the package sentencepiece, and its ids for random texts.

    python3 tests/models/tokenizer/make_sentence_pieces.py      needs sentencepiece

`llama` is as in Llama 2, TinyLlama and Mistral v0.1 (BPE, bytes, a space before a text); `gemma` as in Gemma (no such space, pieces of several
spaces and of line ends); `unigram` as in T5 (a unigram model whose texts are normalized, here by a few rules).
"""
import io
import json
import random
import tempfile
from pathlib import Path

import sentencepiece as spm

HERE = Path(__file__).parent / "sentence_pieces"
WORDS = ("the light of day and night was upon face deep waters said let there be good called earth seas gathered together dry land appear "
         "don't I'll x9 1234 3.14 camelCase HTTPServer äußere été naïve 你好 世界 かな 안녕 привет मर हिन्दी ﬁne ① Ａ ½ …").split()
SEPARATORS = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\t", ", ", ". ", "! ", "-", "/", "", "    ", "\u3000", "\u00a0"]
KINDS = {
    "llama": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
                  allow_whitespace_only_pieces=True),
    "gemma": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False,
                  split_digits=True, user_defined_symbols=["<mask>", "\n\n", "▁▁", "▁▁▁", "<turn>"], pad_id=0, eos_id=1, bos_id=2, unk_id=3),
    "unigram": dict(model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
}


# Characters that `unigram` replaces.
RULES = {"ﬁ": "fi", "①": "1", "Ａ": "A", "½": "1/2", "…": "...", "\u3000": " ", "\u00a0": " ", "\n": " ", "\t": " ", "e\u0301": "é"}


def rules_file(folder):
    code = lambda text: " ".join(f"{ord(c):X}" for c in text)
    (Path(folder) / "rules.tsv").write_text("".join(f"{code(old)}\t{code(new)}\n" for old, new in RULES.items()))
    return str(Path(folder) / "rules.tsv")


def text(draw, words):
    return "".join(draw.choice(WORDS) + draw.choice(SEPARATORS) for _ in range(words))


def noise(draw):
    return "".join(chr(draw.choice([draw.randrange(32, 127), draw.randrange(0xA0, 0x250), draw.randrange(0x4E00, 0x4E80), 32, 10, 0x1F600]))
                   for _ in range(draw.randrange(1, 24)))


def main():
    HERE.mkdir(exist_ok=True)
    draw = random.Random(5)
    corpus = [text(draw, 12) for _ in range(400)]
    texts = ["", " ", "a", "  two  spaces ", "<turn>user\n\n\nhello<mask>"] + [text(draw, 8) for _ in range(20)] + [noise(draw) for _ in range(20)]
    texts = [t for t in texts if "\r" not in t]
    rows = {}
    for name, options in KINDS.items():
        model = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder:
            if name == "unigram":
                options = dict(options, normalization_rule_tsv=rules_file(folder))
            spm.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=model, vocab_size=560 if options.get("byte_fallback") else 180,
                                           character_coverage=0.999, minloglevel=2, **options)
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "tokenizer.model").write_bytes(model.getvalue())
        rows[name] = spm.SentencePieceProcessor(model_proto=model.getvalue()).encode(texts)
    lines = [json.dumps("texts") + ": " + json.dumps(texts)] + [f"{json.dumps(name)}: {json.dumps(ids)}" for name, ids in rows.items()]
    (HERE / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
