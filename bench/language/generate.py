#!/usr/bin/env python3
"""Measures the overhead of generation: tokens/s of `genesis-run generate` relative to those of `bench --entry decode`.

    python3 bench/language/generate.py BUILD_DIR [--device cuda] [--shape 0.5b] [--layers 24] [--dtype bf16] [--tokens 256] [--rounds 3] [--json FILE]
    python3 bench/language/generate.py BUILD_DIR --batch 32 [--context 1024] [--shape 0.5b|7b] [...]

Qwen2.5 with random weights, whose speed does not depend on the values. Decoding is measured at the position in the
middle of the generated text. Both are measured in turn, and the best of each counts. The bar: 92% of decode, for greedy
choice and for temperature, top-k and top-p together.

With --batch: decodes that many texts at a time. The prompts have --context minus half of --tokens tokens, so that --context is
the middle of the decoded positions. Prints tokens/s of `bench --entry decode` with a cache of that many rows, and its share of
the roofline: the bytes that a step must read (weights, without the embedding table if the head is untied, and keys and values of
all texts) at the bandwidth measured in the same run. Also prints tokens/s of `generate --batch`: of decoding alone, from the
difference of two runs that differ only in --max-tokens, and of everything, prompts included. The bar: 60% of the roofline. With
--peer also prints tokens/s of transformers with its static cache and torch.compile, for the same number of texts at the same
context (bench/peers/transformers_decode.py, for at most --peer-seconds, compiling included); the bar: twice its faster mode.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

SHAPES = {"0.5b": dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2,
                       num_hidden_layers=24, max_position_embeddings=2048),
          "7b": dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_attention_heads=28, num_key_value_heads=4,
                     num_hidden_layers=28, max_position_embeddings=2048, tie_word_embeddings="false"),
          "tiny": dict(vocab_size=2048, hidden_size=128, intermediate_size=352, num_attention_heads=2, num_key_value_heads=2,
                       num_hidden_layers=2, max_position_embeddings=2048)}
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PEER = os.path.join(ROOT, "bench", "peers", "transformers_decode.py")
TOKENIZER = os.path.join(ROOT, "tests", "models", "tokenizer", "qwen.json")
BATCH_BAR = 0.6
PEER_BAR = 2.0
BAR = 0.92
MODES = {"greedy": ["--temperature", "0"],
        "sampled": ["--temperature", "0.8"],
        "top-k, top-p, min-p": ["--temperature", "0.8", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.05"],
        "top-p": ["--temperature", "0.8", "--top-p", "0.95"],
        "penalties": ["--temperature", "0", "--repetition-penalty", "1.1", "--frequency-penalty", "0.2"],
        "logprobs": ["--temperature", "0", "--logprobs", "5"]}
JUDGED = ("greedy", "top-k, top-p, min-p")


def process(build, *words):
    done = subprocess.run([os.path.join(build, "tools", words[0]), *map(str, words[1:])], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


def run(build, *words):
    return process(build, *words).stdout


def make_model(flags, path, settings):
    run(flags.build, "genesis-build", "qwen2", "-o", path, *(x for k, v in settings.items() for x in ("--set", f"{k}={v}")))
    if flags.dtype == "f32":
        return path
    run(flags.build, "genesis-opt", path, "-o", path + ".cast", "--cast", flags.dtype)
    os.remove(path)
    return path + ".cast"


def settings_of(flags):
    settings = dict(SHAPES[flags.shape])
    if flags.layers:
        settings["num_hidden_layers"] = flags.layers
    return settings


def bytes_of_step(flags):
    """Returns the bytes that a decoding step must read: weights, and keys and values of all texts."""
    s, size = settings_of(flags), 4 if flags.dtype == "f32" else 2
    hidden, head = s["hidden_size"], s["hidden_size"] // s["num_attention_heads"]
    keys = s["num_key_value_heads"] * head
    layer = hidden * (2 * hidden + 2 * keys) + 3 * hidden * s["intermediate_size"]
    weights = s["num_hidden_layers"] * layer + s["vocab_size"] * hidden
    cache = s["num_hidden_layers"] * 2 * keys * flags.context * flags.batch
    return {"weights": weights * size, "cache": cache * size}


def batch_decode(flags, folder):
    """Benches the entry point `decode` alone; the report includes the bandwidth measured in the same run."""
    positions = (flags.context + flags.tokens + 63) // 64 * 64
    model = make_model(flags, os.path.join(folder, "rows.genesis"),
                       {**settings_of(flags), "batch": flags.batch, "cache_positions": positions})
    report = json.loads(run(flags.build, "genesis-run", "bench", model, "--entry", "decode", "--device", flags.device, "--json",
                            "--input", f"position=full:{flags.context}", "--input", "tokens=zeros", "--runs", flags.tokens))
    os.remove(model)
    return report


def seconds_of_batch(flags, model, prompts, tokens):
    """Returns the seconds of generate --batch without compiling, as it reports them."""
    done = process(flags.build, "genesis-run", "generate", model, "--tokenizer", TOKENIZER, "--prompts", prompts, "--batch", flags.batch,
                   "--max-tokens", tokens, "--device", flags.device, "--temperature", "0", "--prefill-chunk", flags.prefill_chunk)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    made = sum(len(line["tokens"]) for line in lines)
    if made != flags.batch * tokens:
        sys.exit(f"{made} tokens were made instead of {flags.batch * tokens}: a text ended early")
    return float(re.search(r"written in ([0-9.]+) s", done.stderr).group(1))


def peer_tokens_per_second(flags):
    """Returns tokens/s by mode of torch.compile, or an error text for a mode that failed. After a timeout, the results printed so
    far count."""
    settings = {name: False if value == "false" else value for name, value in {"tie_word_embeddings": True, **settings_of(flags)}.items()}
    words = [sys.executable, PEER, "--config", json.dumps(settings), "--batch", str(flags.batch), "--context", str(flags.context), "--tokens",
             str(flags.tokens), "--device", flags.device, "--dtype", flags.dtype, "--modes", flags.peer_modes]
    with tempfile.TemporaryFile("w+") as out:
        try:
            subprocess.run(words, stdout=out, stderr=subprocess.DEVNULL, timeout=flags.peer_seconds)
        except subprocess.TimeoutExpired:
            print(f"transformers was stopped after {flags.peer_seconds} s")
        out.seek(0)
        lines = out.read().splitlines()
    return json.loads(lines[-1]) if lines else {}


def bench_peer(flags, result):
    result["peer"] = peer_tokens_per_second(flags)
    for mode, speed in result["peer"].items():
        print(f"transformers, static cache, {mode}: {speed if isinstance(speed, str) else f'{speed:.0f} tokens/s'}")
    speeds = [speed for speed in result["peer"].values() if not isinstance(speed, str)]
    if speeds:
        result["of_peer"] = result["decode"] / max(speeds)
        print(f"decode: {result['of_peer']:.2f} times transformers (bar {PEER_BAR:.0f})")
    else:
        print("transformers gave no number")


def bench_batch(flags, folder):
    decode = batch_decode(flags, folder)
    model = make_model(flags, os.path.join(folder, "qwen.genesis"), settings_of(flags))
    words = flags.context - flags.tokens // 2
    prompts = os.path.join(folder, "prompts.jsonl")
    with open(prompts, "w") as file:  # " a" is one token
        for row in range(flags.batch):
            file.write(json.dumps(" a" * (words - row % 8)) + "\n")
    few = 1 + flags.tokens // 8
    whole = min(seconds_of_batch(flags, model, prompts, flags.tokens) for _ in range(flags.rounds))
    short = min(seconds_of_batch(flags, model, prompts, few) for _ in range(flags.rounds))
    needed, step = bytes_of_step(flags), decode["device_ms"] * 1e-3
    bandwidth = 1e9 * max(decode["peaks"].get(name, 0) for name in ("read_gbps", "copy_gbps"))
    result = {"decode": flags.batch / step, "decode_with_host": decode["tokens_per_second"], "bytes": needed, "bandwidth": bandwidth,
              "share": sum(needed.values()) / bandwidth / step,
              "generate_decode": flags.batch * (flags.tokens - few) / (whole - short), "generate": flags.batch * flags.tokens / whole}
    print(f"{flags.batch} texts, Qwen2.5-{flags.shape} {flags.dtype}, {flags.context} tokens of context")
    print(f"a step reads {needed['weights'] / 1e9:.2f} GB of weights and {needed['cache'] / 1e9:.2f} GB of cache; "
          f"memory gives {bandwidth / 1e9:.0f} GB/s")
    print(f"decode: {result['decode']:.0f} tokens/s, {1e3 * step:.3f} ms a step, {100 * result['share']:.0f}% of the roofline "
          f"(bar {100 * BATCH_BAR:.0f}%)")
    print(f"generate, decoding: {result['generate_decode']:.0f} tokens/s; with prompts: {result['generate']:.0f} tokens/s")
    if flags.peer:
        bench_peer(flags, result)
    return result


def bench_one(flags, folder):
    model = make_model(flags, os.path.join(folder, "qwen.genesis"), settings_of(flags))
    prompt = "In the beginning"
    best = {"decode": 0.0, **{mode: 0.0 for mode in MODES}}
    for _ in range(flags.rounds):
        report = json.loads(run(flags.build, "genesis-run", "bench", model, "--entry", "decode", "--device", flags.device, "--json",
                                "--input", f"position=full:{flags.tokens // 2}", "--runs", flags.tokens))
        best["decode"] = max(best["decode"], report["tokens_per_second"])
        for mode, words in MODES.items():
            report = json.loads(run(flags.build, "genesis-run", "generate", model, "--tokenizer", TOKENIZER, "--prompt", prompt,
                                    "--max-tokens", flags.tokens, "--device", flags.device, "--json", *words))
            best[mode] = max(best[mode], report["decode_tokens_per_second"])
    print(f"decode: {best['decode']:.1f} tokens/s")
    for mode in MODES:
        bar = f"  (bar {100 * BAR:.0f}%)" if mode in JUDGED else ""
        print(f"{mode}: {best[mode]:.1f} tokens/s, {100 * best[mode] / best['decode']:.1f}% of decode{bar}")
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default="0.5b", choices=list(SHAPES))
    parser.add_argument("--layers", type=int, default=0, help="0: those of the shape")
    parser.add_argument("--batch", type=int, default=0, help="texts at a time")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--prefill-chunk", type=int, default=8192, help="with --batch: tokens of one run of a prompt")
    parser.add_argument("--peer", action="store_true", help="with --batch: transformers beside it, in this Python")
    parser.add_argument("--peer-modes", default="reduce-overhead", help="of torch.compile, separated by commas")
    parser.add_argument("--peer-seconds", type=float, default=120)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if flags.batch:
            best = bench_batch(flags, folder)
        else:
            best = bench_one(flags, folder)
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump(best, file, indent=1)
    if flags.batch:
        return 0 if best["share"] >= BATCH_BAR and best.get("of_peer", PEER_BAR) >= PEER_BAR else 1
    return 0 if all(best[mode] >= BAR * best["decode"] for mode in JUDGED) else 1


sys.exit(main())
