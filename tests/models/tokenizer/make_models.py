#!/usr/bin/env python3
"""Makes models.json beside it: tokenizers of the kinds that make_pipelines.py does not have (Unigram, WordPiece, WordLevel, and BPE
over characters as SentencePiece has it) with their normalizers, pre-tokenizers and decoders, and the results of `tokenizers`.

Needs `pip install tokenizers` and a Debian or Ubuntu, whose licenses are the text that vocabularies are learned from; the suite
needs neither: it reads the results.
Usage: tests/models/tokenizer/make_models.py [--cases N] [--texts N] [--seed N] [--to FILE]
"""
import argparse
import json
import random
import string
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import make_pipelines as pipelines
from characters_map import charsmap_text

HERE = Path(__file__).parent
SPACES = list("  \t\n\r\v\f\x85\xa0\u1680\u2003\u2028\u202f\u3000\u200b\u2060\ufeff\u2581\x1c")
MARKS = list("\u0301\u0323\u0302\u0344\u1ab0\u20dd\u3099\u0903\u094d\u0e31\u1dc0\u0897\u0b56\u1ad0")
LETTERS = list(string.ascii_letters) + list("\u00e9\u00df\u0130\u01c5\u03a3\u0416\u05d0\u0639\u0928\u0e01\u1112\u1161\u11ab\uac00\ua7dc\ufb01\u212b\u2460\uff21\u0600\u113d1\u11a3a")
IDEOGRAPHS = list("\u4f60\u597d\u3053\u3093\uff76\u3400\uf900\U00020000\U0002b820\U0002b920\U0002f800\u31ef\u3220")
EMOJI = ["\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\xa9\u200d", "1\ufe0f\u20e3"]
CONTROLS = [chr(c) for c in (0, 1, 7, 8, 11, 14, 27, 127, 0x8f, 0x9f, 0xad, 0x61c, 0x200e, 0x2066, 0xe000, 0xfff9, 0xfffd, 0xe0001, 0xf0000)]
WORDS = "In the beginning God created heaven and earth don't THE Unto wordpiece 1611 3.14 ... !? caf\u00e9 cafe\u0301".split()
CUTS = ["<s>", "</s>", "<unk>", "[MASK]", "[UNK]", "<mask> ", " <mask>", "\r\n", "##", "<0x41>", "\u2581the"]


def piece(rng):
    kind = rng.randrange(13)
    if kind < 4:
        return " " + rng.choice(WORDS)
    return [lambda: rng.choice(SPACES) * rng.randrange(1, 4), lambda: rng.choice(LETTERS) + "".join(rng.choices(MARKS, k=rng.randrange(3))),
            lambda: "".join(rng.choices(LETTERS, k=3)), lambda: "".join(rng.choices(IDEOGRAPHS, k=2)), lambda: rng.choice(EMOJI), lambda: rng.choice(CONTROLS),
            lambda: rng.choice(string.punctuation), lambda: rng.choice(CUTS), lambda: rng.choice(pipelines.PIECES)][kind - 4]()


def text(rng):
    if rng.random() < 0.02:
        return rng.choice(["th", "a", "\u0301", "\u4f60", "aab"]) * rng.randrange(30, 130)
    if rng.random() < 0.03:  # bytes that are not UTF-8
        return bytes(rng.randrange(256) for _ in range(12)).decode(errors="replace")
    return "".join(piece(rng) for _ in range(rng.randrange(12)))


def characters_map():
    """Returns a map like nmt_nfkc of SentencePiece, for the characters that texts are made of."""
    pool = sorted(set("".join(SPACES + MARKS + LETTERS + IDEOGRAPHS + EMOJI + CONTROLS + pipelines.PIECES)))
    mapping = {c: unicodedata.normalize("NFKC", c) for c in pool if unicodedata.normalize("NFKC", c) != c and c != "\0"}
    mapping |= {c: " " for c in "\t\n\r\f\u1680\u200b\u2028\u2581\ufeff\ufffd"} | {c: "" for c in "\x01\x07\x08\x0b\x0e\x1b\x7f\x8f\x9f"}
    for base in "eaoA\u4f60\u0928\u30ab":
        mapping |= {base + mark: unicodedata.normalize("NFKC", base + mark) for mark in MARKS[:3] + ["\u3099"]}
    return mapping


def replace(old, new, regex=False):
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": old}, "content": new}


def metaspace(rng, split=True):
    row = {"type": "Metaspace", "replacement": "\u2581"}
    if rng.random() < 0.2:
        return row | rng.choice([{"add_prefix_space": True}, {"add_prefix_space": False, "prepend_scheme": "never"}])
    return row | {"prepend_scheme": rng.choice(["always", "first", "never"]), "split": split if rng.random() < 0.8 else not split}


def normalizer_part(rng):
    return rng.choice([
        lambda: {"type": "BertNormalizer", "clean_text": rng.random() < 0.7, "handle_chinese_chars": rng.random() < 0.7,
                 "strip_accents": rng.choice([None, True, False]), "lowercase": rng.random() < 0.6},
        lambda: {"type": rng.choice(["StripAccents", "Nmt", "Lowercase", "NFKC", "NFD", "NFKD", "NFC"])},
        lambda: {"type": "Precompiled", "precompiled_charsmap": charsmap_text(characters_map())},
        lambda: {"type": "Prepend", "prepend": "\u2581"}, lambda: replace(" ", "\u2581"), lambda: replace(" {2,}", rng.choice([" ", "\u2581"]), True),
        lambda: replace(rng.choice(["th", "e", "aa"]), rng.choice(["", "x", "\u2581"])),
        lambda: {"type": "Strip", "strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.7}])()


def pre_tokenizer(rng):
    parts = [metaspace(rng)] if rng.random() < 0.6 else []
    if rng.random() < 0.4:
        parts.insert(0, {"type": rng.choice(["WhitespaceSplit", "Whitespace", "BertPreTokenizer"])})
    if rng.random() < 0.2:
        parts.insert(rng.randrange(len(parts) + 1), pipelines.pre_tokenizer_part(rng))
    return pipelines.sequence(rng, parts, "pretokenizers") if parts else None


def decoder(rng):
    kinds = [lambda: metaspace(rng), lambda: metaspace(rng), lambda: {"type": "WordPiece", "prefix": rng.choice(["##", "t"]), "cleanup": rng.random() < 0.6},
             lambda: {"type": "CTC", "pad_token": rng.choice(["<s>", "a"]), "word_delimiter_token": rng.choice(["|", "\u2581", "e"]), "cleanup": rng.random() < 0.6},
             lambda: {"type": "Fuse"}, lambda: {"type": "ByteFallback"}, lambda: replace("\u2581", " "),
             lambda: {"type": "Strip", "content": " ", "start": rng.randrange(3), "stop": rng.randrange(2)}]
    return pipelines.sequence(rng, [rng.choice(kinds)() for _ in range(rng.choice([1, 1, 2, 3, 4]))], "decoders")


def byte_tokens(rng):
    return [f"<0x{byte:02X}>" for byte in range(256) if rng.random() < 0.99]


def tokens_of(rng, prefix):
    """Returns tokens that overlap in many ways."""
    letters = [c for c in "abcdehilmnorstuwTIG1.!?',\u00e9\u0301\u4f60\u597d\u2581" if rng.random() < 0.95]
    pieces = "th the he her an and be ing in gin inn nn nning ning or wor word aa aaa ab aab \u2581t \u2581th \u2581the \u2581a \u2581an \u2581and th\u2581 cre ated \u4f60\u597d".split()
    if prefix:
        pieces += [prefix + one for one in letters + pieces if rng.random() < 0.8]
    tokens = letters + [one for one in pieces if rng.random() < 0.8]
    rng.shuffle(tokens)
    return list(dict.fromkeys(tokens))


def unigram(rng):
    tokens = ["<s>", "</s>"] + tokens_of(rng, "")
    fallback = rng.random() < 0.4
    tokens += byte_tokens(rng) if fallback else []
    unknown = rng.randrange(3)
    tokens.insert(unknown, "<unk>")
    score = rng.choice([lambda: -rng.randrange(1, 4), lambda: round(rng.uniform(-12, 0), 3), lambda: rng.choice([-2.5, -5.0, -5.0, 3.0]), lambda: -1e30])
    return {"type": "Unigram", "unk_id": unknown if rng.random() < 0.9 else None, "vocab": [[token, score()] for token in tokens], "byte_fallback": fallback}


def word_piece(rng):
    prefix = rng.choice(["##", "##", "##", "\u2581"])
    tokens = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"] + tokens_of(rng, prefix)
    if rng.random() < 0.05:
        tokens.remove("[UNK]")
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix, "max_input_chars_per_word": rng.choice([100, 100, 5, 40]),
             "vocab": {token: i for i, token in enumerate(tokens)}}
    if rng.random() < 0.2:
        del model["type"]
    return model


def word_level(rng):
    tokens = ["<unk>", "<s>"] + tokens_of(rng, "") + WORDS
    return {"type": "WordLevel", "unk_token": rng.choice(["<unk>", "<none>"]), "vocab": {token: i for i, token in enumerate(dict.fromkeys(tokens))}}


def sentence_piece_bpe(rng):
    """Returns BPE with every pair of tokens that makes a token as a merge, by the score of the made token."""
    tokens = list(dict.fromkeys(["<unk>", "<s>", "</s>"] + byte_tokens(rng) + tokens_of(rng, "")))
    scores = {token: rng.choice([i, rng.randrange(8)]) for i, token in enumerate(tokens)}
    merges = [(token[:i], token[i:]) for token in tokens for i in range(1, len(token)) if token[:i] in scores and token[i:] in scores and len(token) < 8]
    merges.sort(key=lambda pair: (scores[pair[0] + pair[1]], -len(pair[0]), -len(pair[1])))
    return {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": rng.random() < 0.7,
            "byte_fallback": rng.random() < 0.8, "ignore_merges": rng.random() < 0.2, "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}


def added_tokens(rng, vocabulary, size):
    rows = []
    for content in rng.sample(["<s>", "</s>", "<mask>", "[MASK]", "[SEP]", "word", "   "], rng.randrange(5)):
        known = vocabulary.get(content)
        row = {"id": size if known is None else known, "content": content}
        size += known is None
        row |= {name: rng.random() < 0.3 for name in ("single_word", "lstrip", "rstrip", "normalized")} | {"special": rng.random() < 0.7}
        row["normalized"] &= content.strip() != ""  # a content that Strip makes empty matches everywhere in `tokenizers`
        rows.append(row)
    return rows


def file_of(rng):
    model = rng.choice([unigram, unigram, word_piece, word_piece, word_level, sentence_piece_bpe, sentence_piece_bpe])(rng)
    vocab = model["vocab"]
    added = added_tokens(rng, vocab if isinstance(vocab, dict) else {token: i for i, (token, _) in enumerate(vocab)}, len(vocab))
    parts = [normalizer_part(rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    ids = [row["id"] for row in added]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": pipelines.sequence(rng, parts, "normalizers") if parts else None, "pre_tokenizer": pre_tokenizer(rng),
            "post_processor": pipelines.post_processor(rng, ids) if ids and rng.random() < 0.3 else None,
            "decoder": decoder(rng) if rng.random() < 0.85 else None, "model": model}


def base_file(**parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "decoder": None} | parts


def special(*contents):
    return [{"id": i, "content": content, "single_word": False, "lstrip": content == "<mask>", "rstrip": False, "normalized": False, "special": True}
            for i, content in enumerate(contents)]


def around(first, last):
    pieces = [{"SpecialToken": {"id": name, "type_id": 0}} if name != "A" else {"Sequence": {"id": "A", "type_id": 0}} for name in (first, "A", last) if name]
    names = {"<s>": 1, "</s>": 2, "[CLS]": 1, "[SEP]": 2}
    return {"type": "TemplateProcessing", "single": pieces, "pair": pieces,
            "special_tokens": {name: {"id": name, "ids": [names[name]], "tokens": [name]} for name in (first, last) if name}}


def trained(lines, model, trainer, normalizer, pre_tokenizer):
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())["model"]


def families(lines):
    """Returns files as families of models have them, with vocabularies learned from `lines`."""
    names = ["<unk>", "<s>", "</s>"]
    chars = pre_tokenizers.Metaspace()
    bpe = trained(lines, models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True),
                  trainers.BpeTrainer(vocab_size=700, special_tokens=names + byte_tokens(random.Random(0)), show_progress=False), None, chars)
    unigram = trained(lines, models.Unigram(), trainers.UnigramTrainer(vocab_size=500, special_tokens=names, unk_token="<unk>", show_progress=False),
                      normalizers.NFKC(), chars)
    bert = trained(lines, models.WordPiece(unk_token="[UNK]"),
                   trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False),
                   normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer())
    llama_normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581")]}
    llama_decoder = {"type": "Sequence", "decoders": [replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    gemma_decoder = {"type": "Sequence", "decoders": llama_decoder["decoders"][:3]}
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    charsmap = {"type": "Precompiled", "precompiled_charsmap": charsmap_text(characters_map())}
    uncased = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    tokens = special(*names)
    cls = [{"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}, around("[CLS]", "[SEP]")]
    return {
        "llama2": base_file(model=bpe, added_tokens=tokens, normalizer=llama_normalizer, decoder=llama_decoder, post_processor=around("<s>", None)),
        "llama2-scores": base_file(model=merged_by_scores(bpe), added_tokens=tokens, normalizer=llama_normalizer, decoder=llama_decoder,
                                   post_processor=around("<s>", None)),
        "mistral3": base_file(model=bpe, added_tokens=tokens, pre_tokenizer=meta | {"prepend_scheme": "first", "split": False}, decoder=llama_decoder,
                              post_processor=around("<s>", None)),
        "gemma": base_file(model=bpe, added_tokens=tokens, normalizer=replace(" ", "\u2581"), decoder=gemma_decoder,
                           pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}),
        "xlmr": base_file(model=unigram, added_tokens=tokens, normalizer=charsmap, pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}]}, decoder=meta, post_processor=around("<s>", "</s>")),
        "t5": base_file(model=unigram, added_tokens=tokens, pre_tokenizer=meta, decoder=meta, post_processor=around(None, "</s>"), normalizer={
            "type": "Sequence", "normalizers": [charsmap, {"type": "Strip", "strip_left": False, "strip_right": True}, replace(" {2,}", "\u2581", True)]}),
        "albert": base_file(model=unigram, added_tokens=tokens, pre_tokenizer=meta, decoder=meta, normalizer={"type": "Sequence", "normalizers": [
            replace("``", '"'), replace("''", '"'), {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, charsmap]}),
        "bert": base_file(model=bert, added_tokens=special("[UNK]", "[CLS]", "[SEP]", "[MASK]"), normalizer=uncased, pre_tokenizer={"type": "BertPreTokenizer"},
                          decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}, post_processor=cls[1]),
        "bert-cased": base_file(model=bert, added_tokens=special("[UNK]", "[CLS]", "[SEP]", "[MASK]"), normalizer=uncased | {"lowercase": False},
                                pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": False}, post_processor=cls[0])}


def merged_by_scores(bpe):
    """Returns the model as transformers makes it of SentencePiece's: a merge for each way to make a token of two, and the scores."""
    scores = {token: -float(i) for token, i in bpe["vocab"].items()}
    ways = [(token[:i], token[i:]) for token in scores for i in range(1, len(token)) if token[:i] in scores and token[i:] in scores]
    ways.sort(key=lambda pair: (scores[pair[0] + pair[1]], len(pair[0]), len(pair[1])), reverse=True)
    return bpe | {"merges": ways}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--family-texts", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", default=str(HERE / "models.json"))
    options = parser.parse_args()
    lines = Path("/usr/share/common-licenses/GPL-3").read_text().splitlines()
    cases = []
    for i in range(options.cases):
        rng = random.Random(1000003 * options.seed + i)
        file = file_of(rng)
        cases.append({"file": file} | pipelines.answers(file, rng, [text(rng) for _ in range(options.texts)]))
    for name, file in families(lines).items():
        rng = random.Random(options.seed)
        cases.append({"family": name, "file": file} | pipelines.answers(file, rng, [text(rng) for _ in range(options.family_texts)]))
    Path(options.to).write_text(json.dumps(cases, separators=(",", ":")))


if __name__ == "__main__":
    main()
