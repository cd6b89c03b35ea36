#!/usr/bin/env python3
"""What generation costs beside decoding: tokens/s of `genesis-run generate` against those of `bench --entry decode`.

    python3 bench/generate.py BUILD_DIR [--device cuda] [--layers 24] [--dtype bf16] [--tokens 256] [--rounds 3] [--json FILE]

Qwen2.5-0.5B with random weights, whose speed does not depend on the values. Decoding is measured at the position in the
middle of the text that is generated, and the two take turns; the best of each counts. The bar: 92% of decode, with greedy
choice and with temperature, top-k and top-p together.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

QWEN = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2,
            max_position_embeddings=2048)
BAR = 0.92
WAYS = {"greedy": ["--temperature", "0"],
        "sampled": ["--temperature", "0.8"],
        "top-k, top-p, min-p": ["--temperature", "0.8", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05"],
        "top-p": ["--temperature", "0.8", "--top-p", "0.95"],
        "penalties": ["--temperature", "0", "--repetition-penalty", "1.1", "--frequency-penalty", "0.2"],
        "logprobs": ["--temperature", "0", "--logprobs", "5"]}
JUDGED = ("greedy", "top-k, top-p, min-p")


def run(build, *words):
    done = subprocess.run([os.path.join(build, "tools", words[0]), *map(str, words[1:])], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    flags = parser.parse_args()
    tokenizer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "models", "tokenizer", "qwen.json")
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "qwen.genesis")
        settings = {**QWEN, "num_hidden_layers": flags.layers}
        run(flags.build, "genesis-build", "qwen2", "-o", model, *(x for k, v in settings.items() for x in ("--set", f"{k}={v}")))
        if flags.dtype != "f32":
            run(flags.build, "genesis-opt", model, "-o", model + ".cast", "--cast", flags.dtype)
            model += ".cast"
        prompt = "In the beginning"
        best = {"decode": 0.0, **{way: 0.0 for way in WAYS}}
        for _ in range(flags.rounds):
            report = json.loads(run(flags.build, "genesis-run", "bench", model, "--entry", "decode", "--device", flags.device, "--json",
                                    "--input", f"position=full:{flags.tokens // 2}", "--runs", flags.tokens))
            best["decode"] = max(best["decode"], report["tokens_per_second"])
            for way, words in WAYS.items():
                report = json.loads(run(flags.build, "genesis-run", "generate", model, "--tokenizer", tokenizer, "--prompt", prompt,
                                        "--max-tokens", flags.tokens, "--device", flags.device, "--json", *words))
                best[way] = max(best[way], report["decode_tokens_per_second"])
        print(f"decode: {best['decode']:.1f} tokens/s")
        for way in WAYS:
            bar = f"  (bar {100 * BAR:.0f}%)" if way in JUDGED else ""
            print(f"{way}: {best[way]:.1f} tokens/s, {100 * best[way] / best['decode']:.1f}% of decode{bar}")
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump(best, file, indent=1)
    return 0 if all(best[way] >= BAR * best["decode"] for way in JUDGED) else 1


sys.exit(main())
