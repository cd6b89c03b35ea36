#!/usr/bin/env python3
"""Makes pipelines.json beside it: random normalizers, pre-tokenizers, post-processors, decoders, added tokens and flags of BPE,
and the results of `tokenizers` for them. Each case is a difference to gpt2.json, or a small vocabulary of characters.

Needs `pip install tokenizers`; the suite does not: it reads the results.
Usage: tests/models/tokenizer/make_pipelines.py [--cases N] [--seed N] [--to FILE]
"""
import argparse
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

HERE = Path(__file__).parent
BASE = json.loads((HERE / "gpt2.json").read_text())
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
EXPRESSIONS = [r"\p{N}{1,3}", r"\s+", r"[^\s\p{L}\p{N}]+", r" ?\p{L}+", r"(?i:'s|'t)|\p{L}+", r"[\r\n]+", r"\p{Lu}\p{Ll}*", r"\d", r"[aeiou]+",
               r"th|he", r"\S+", r"\s+(?!\S)|\s+", r"[\p{P}\p{S}]", r"\p{M}+", r"[0-9][0-9][0-9]", r" {2,}", r"[一-龥ぁ-ん]+", r"a+b|a"]
LITERALS = ["e", " ", "th", "  ", "\u00e9", ".", "<", "aa", "\n", "the", "\u0301", "1"]
PIECES = ["the", " and", "LORD", "They're", "it'S", "1611", " 3.14", "\u0661\u0662", "\u00bd", "\u2167", " ", "  ", "   ", "\t", "\r\n", "\n\n", "\u00a0",
          "\u3000", "\u200b", "\u2028", "\x85", "\x1c", "!?", "...", "--", "$", "+", "\u00ab", "\u3002", "\u0f0b", "\U00010af0", "caf\u00e9",
          "cafe\u0301", "e\u0323\u0302", "e\u0302\u0323", "\uac00", "\u1112\u1161\u11ab", "\u1161\u11a7", "\ufb01", "\u2460", "\u32ff", "\ufdfa", "\U0001fbf3",
          "\u1e9e\u00df", "\u0130\u0131", "\u03a3\u03c2", "\u01c5", "\ua7dc", "\U0001c890", "\u4f60\u597d", "\u3053\u3093", "\u0928\u092e\u0938\u094d\u0924\u0947",
          "\u0645\u0631\u062d\u0628\u0627", "\u0e2a\u0e27\u0e31", "\U0001f600", "\U0001f468\u200d\U0001f469", "\u2764\ufe0f", "\0", "\x07", "\x1b[", "\ufffd", "\ufeff",
          "<|endoftext|>", "<a>", "<b>", "<A>", "word", "words", "_word", "aaab", "ab", "\u2581", "<0x41>", "\U00011de0", "\U00016ff4", "\u166d", "\u0897"]
SPACED = ["<a>", " <b> ", "  <a>  <b>\t", " word ", "<A>", "<a><b>", "\n<b>\n"]


def text(rng):
    pool = PIECES if rng.random() < 0.7 else SPACED + PIECES[:20]
    return "".join(rng.choice(pool) for _ in range(rng.randrange(1, 14)))


def pattern(rng):
    return {"Regex": rng.choice(EXPRESSIONS)} if rng.random() < 0.6 else {"String": rng.choice(LITERALS)}


def byte_level(rng):
    return {"type": "ByteLevel", "add_prefix_space": rng.random() < 0.3, "trim_offsets": True, "use_regex": rng.random() < 0.5}


def pre_tokenizer_part(rng):
    return rng.choice([
        lambda: {"type": "Split", "pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": rng.random() < 0.4},
        lambda: {"type": "Split", "pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": rng.random() < 0.4},
        lambda: {"type": "Digits", "individual_digits": rng.random() < 0.5},
        lambda: {"type": "Punctuation", "behavior": rng.choice(BEHAVIORS)},
        lambda: {"type": rng.choice(["Whitespace", "WhitespaceSplit", "BertPreTokenizer"])},
        lambda: {"type": "CharDelimiterSplit", "delimiter": rng.choice(["e", " ", "\u00e9"])},
        lambda: byte_level(rng)])()


def sequence(rng, parts, name):
    if len(parts) == 1 and rng.random() < 0.7:
        return parts[0]
    if len(parts) > 2 and rng.random() < 0.2:
        parts = [{"type": "Sequence", name: parts[:2]}] + parts[2:]
    return {"type": "Sequence", name: parts}


def pre_tokenizer(rng, byte_alphabet):
    parts = [pre_tokenizer_part(rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    if byte_alphabet:
        parts.append(byte_level(rng))
    else:
        parts = [part for part in parts if part["type"] != "ByteLevel"]
    return sequence(rng, parts, "pretokenizers") if parts else None


def normalizer(rng, byte_alphabet):
    kinds = [lambda: {"type": rng.choice(["NFC", "NFD", "NFKC", "NFKD"])}, lambda: {"type": "Lowercase"},
             lambda: {"type": "Strip", "strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5},
             lambda: {"type": "Prepend", "prepend": rng.choice([" ", "\u2581", "the"])},
             lambda: {"type": "Replace", "pattern": pattern(rng), "content": rng.choice(["", " ", "\u2581", "the", "\u00e9"])}]
    if byte_alphabet:
        kinds.append(lambda: {"type": "ByteLevel"})
    return sequence(rng, [rng.choice(kinds)() for _ in range(rng.choice([1, 1, 2, 3]))], "normalizers")


def decoder(rng):
    kinds = [lambda: byte_level(rng), lambda: {"type": "Fuse"}, lambda: {"type": "ByteFallback"},
             lambda: {"type": "Replace", "pattern": pattern(rng), "content": rng.choice(["", " ", "\u2581", "xy"])},
             lambda: {"type": "Strip", "content": rng.choice([" ", "e", "\u00e9"]), "start": rng.randrange(3), "stop": rng.randrange(2)}]
    return sequence(rng, [rng.choice(kinds)() for _ in range(rng.choice([1, 2, 3, 4]))], "decoders")


def post_processor(rng, ids):
    first, last = rng.choice(ids), rng.choice(ids)
    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "y", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"x": {"id": "x", "ids": [first, last], "tokens": ["x", "y"]}, "y": {"id": "y", "ids": [last], "tokens": ["y"]}}}
    wrappers = [{"type": "RobertaProcessing", "sep": ["</s>", last], "cls": ["<s>", first], "trim_offsets": True, "add_prefix_space": True},
             {"type": "BertProcessing", "sep": ["</s>", last], "cls": ["<s>", first]}]
    parts = rng.choice([[template], [byte_level(rng), template], [rng.choice(wrappers)], [byte_level(rng), wrappers[0]], wrappers, [wrappers[1], template]])
    return sequence(rng, parts, "processors")


def added_tokens(rng, size, vocabulary):
    contents = ["<|endoftext|>"] + rng.sample(["<a>", "<b>", "<A>", "word", "   ", "the", "caf\u00e9", "cafe\u0301", "1", "<|", "\n\n"], rng.randrange(6))
    rows, following = [], size
    for content in contents:
        known = vocabulary.get(content)
        row = {"id": following if known is None else known, "content": content}
        following += known is None
        row |= {name: rng.random() < 0.3 for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        rows.append(row)
    return rows


def byte_model(rng):
    model = json.loads(json.dumps(BASE["model"]))
    model["type"] = "BPE"
    if rng.random() < 0.3:  # a small one, in which some characters have no token
        missing = rng.sample("aet.1\u0120\u00c3\u010a\u00e2", 4)
        model["merges"] = [merge for merge in model["merges"][:40] if not set(missing) & set(merge)]
        tokens = [token for token in model["vocab"] if len(token) == 1 and token not in missing and (token.isascii() or rng.random() < 0.5)]
        model["merges"] = [merge for merge in model["merges"] if all(c in tokens for c in merge if c != " ")]
        tokens += [merge.replace(" ", "") for merge in model["merges"]]
        model["vocab"] = {token: i for i, token in enumerate(tokens)}
    return model


def character_model(rng):
    vocab = list(" \u2581abcdehilmnorstuw.'<>1L\u00e9\u0301\n\u4f60") + ["th", "the", "he", "an", "and", " t", "\u2581t", "wor", "or", "aa", "ab", "aaab", "rd"]
    if rng.random() < 0.3:
        rng.shuffle(vocab)
    merges = ["t h", "th e", "h e", "a n", "an d", "  t", "\u2581 t", "o r", "w or", "a a", "a b", "aa ab", "r d"]
    merges = [[merge[:-2], merge[-1]] if merge[-2] == " " else merge.split(" ") for merge in merges]
    return {"type": "BPE", "dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "vocab": {t: i for i, t in enumerate(vocab)},
            "merges": merges}


def model_of(rng, byte_alphabet):
    model = byte_model(rng) if byte_alphabet else character_model(rng)
    vocab = model["vocab"]
    model |= {"byte_fallback": rng.random() < 0.4, "fuse_unk": rng.random() < 0.4, "ignore_merges": rng.random() < 0.3, "unk_token": None}
    if rng.random() < 0.5:
        model["unk_token"] = "[UNK]"
        if rng.random() < 0.9:
            vocab["[UNK]"] = len(vocab)
    if model["byte_fallback"] and rng.random() < 0.8:
        for byte in range(256):
            if rng.random() < 0.97:
                vocab[f"<0x{byte:02X}>"] = len(vocab)
    return model


def file_of(rng):
    byte_alphabet = rng.random() < 0.7
    model = model_of(rng, byte_alphabet)
    added = added_tokens(rng, len(model["vocab"]), model["vocab"])
    ids = [row["id"] for row in added]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": normalizer(rng, byte_alphabet) if rng.random() < 0.5 else None, "pre_tokenizer": pre_tokenizer(rng, byte_alphabet),
            "post_processor": post_processor(rng, ids) if rng.random() < 0.3 else None,
            "decoder": decoder(rng) if rng.random() < 0.6 else byte_level(rng) if rng.random() < 0.7 else None, "model": model}


class Panic(Exception):
    pass


def attempt(body):
    """Returns the result of `tokenizers`, or None if it refuses."""
    try:
        return body()
    except Exception:
        return None
    except BaseException as error:  # its panics are not derived from Exception
        raise error if isinstance(error, KeyboardInterrupt) else Panic


def without_panics(inputs, *bodies):
    """Returns rows [input, results...] for inputs on which `tokenizers` does not panic."""
    rows = []
    for one in inputs:
        try:
            rows.append([one] + [attempt(lambda: body(one)) for body in bodies])
        except Panic:
            pass
    return [list(column) for column in zip(*rows)] or [[] for _ in range(len(bodies) + 1)]


def answers(file, rng, texts):
    tokenizer = Tokenizer.from_str(json.dumps(file))
    vocab = file["model"]["vocab"]
    size = max(list(vocab.values() if isinstance(vocab, dict) else [len(vocab) - 1]) + [row["id"] for row in file["added_tokens"]]) + 1
    texts, encoded, plain = without_panics(texts, lambda one: tokenizer.encode(one).ids, lambda one: tokenizer.encode(one, add_special_tokens=False).ids)
    decode = [ids for ids in encoded if ids][:3] + [[rng.randrange(size) for _ in range(rng.randrange(1, 20))] for _ in range(3)]
    decode, decoded, without_special = without_panics(decode, lambda ids: tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode)
    return {"texts": texts, "ids": encoded, "plain": plain, "decode": decode, "decoded": decoded, "decoded_without_special": without_special}


def difference(file):
    """Returns the file with tokens as a list: all of them, or only those after gpt2.json's, whose merges are then left out."""
    model, base = dict(file["model"]), list(BASE["model"]["vocab"])
    tokens = sorted(model.pop("vocab"), key=file["model"]["vocab"].get)
    is_more = tokens[:len(base)] == base
    if is_more:
        del model["merges"]
    return file | {"model": model | {"more" if is_more else "tokens": tokens[len(base) if is_more else 0:]}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", default=str(HERE / "pipelines.json"))
    options = parser.parse_args()
    cases = []
    for i in range(options.cases):
        rng = random.Random(1000 * options.seed + i)
        file = file_of(rng)
        cases.append({"file": difference(file)} | answers(file, rng, [text(rng) for _ in range(6)]))
    Path(options.to).write_text(json.dumps(cases, separators=(",", ":")))


if __name__ == "__main__":
    main()
