#!/usr/bin/env python3
"""Makes tokenizers.json: the ids that the package tokenizers gives a text for each pre-tokenizer that GGUF files name in
tokenizer.ggml.pre, as these models define it in their tokenizer.json.

    python3 tests/models/gguf/make_tokenizers.py      needs tokenizers

The merges were learned from the fragments of the text without splitting, so they cross the borders of words wherever nothing
separates them: each missing or extra border changes the ids.
"""
import json
import random
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).parent
FRAGMENTS = ["Hello", " world", "don't", " I'LL", " we'Ve", "camelCaseWord", " HTTPServer", "1234567", " 42", " 3.14", "x9", "\n", "\n\n", "\r\n",
             "  ", "   ", "\t", " \n ", "...", "!?", " $5+<=>^~|`", "//", "(a)", " [b]", "_c_", "#tag", "你好", "世界。", "漢字かなカナ", "안녕", "हिन्दी",
             "e\u0301", "\u00e9", "ÀÉ", " ß", "ǅ", "½", "٣", "…", "،", "。", " —", "🙂", "ﬁ", "a b", ";x", "-y-"]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEED = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
          r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|"
             r"\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Cased letters in the text.
CASED = "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓﬀ-ﬆ]"


def expressions(*patterns):
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def digits_and_gpt2():
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])


def deepseek_coder():
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN)] +
                                   [pre_tokenizers.Digits(individual_digits=True),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": digits_and_gpt2(),
    "refact": digits_and_gpt2(),
    "llama-bpe": expressions(LLAMA3),
    "smaug-bpe": expressions(LLAMA3),
    "qwen2": expressions(QWEN2),
    "megrez": expressions(QWEN2),
    "qwen35": expressions(QWEN35),
    "seed-coder": expressions(SEED),
    "minicpm5": expressions(r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")),
    "tekken": expressions(TEKKEN),
    "gpt-4o": expressions(GPT4O),
    "deepseek-llm": expressions(r"[\r\n]", r"\s?" + CASED + "+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", HAN,
                                r"\p{N}+"),
    "deepseek-coder": deepseek_coder(),
    "deepseek-v3": expressions(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3),
    "bloom": expressions(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"),
    "viking": expressions(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", r"\p{N}"),
    "falcon": expressions(r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"),
    "default": expressions(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}
NORMALIZED = ("qwen2", "qwen35")
WHOLE_WORDS_FIRST = ("llama-bpe", "tekken", "minicpm5")


def learn(rows):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=800, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, min_frequency=2)
    tokenizer.train_from_iterator(rows, trainer)
    return json.loads(tokenizer.to_str())["model"]


def main():
    draw = random.Random(11)
    rows = ["".join(draw.choices(FRAGMENTS, k=30)) for _ in range(200)]
    model = learn(rows)
    text = "".join(rows[:4])
    ids = {}
    for name, pre_tokenizer in PRE_TOKENIZERS.items():
        tokenizer = Tokenizer(models.BPE(model["vocab"], [tuple(m) for m in model["merges"]], ignore_merges=name in WHOLE_WORDS_FIRST))
        tokenizer.pre_tokenizer = pre_tokenizer
        if name in NORMALIZED:
            tokenizer.normalizer = normalizers.NFC()
        ids[name] = tokenizer.encode(text).ids
    merges = [" ".join(m) for m in model["merges"]]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    (HERE / "tokenizers.json").write_text(json.dumps({"tokens": tokens, "merges": merges, "text": text, "ids": ids}, ensure_ascii=True) + "\n")
    print({name: len(row) for name, row in ids.items()}, len({tuple(row) for row in ids.values()}), "of", len(ids), "differ")


if __name__ == "__main__":
    main()
