#!/usr/bin/env python3
"""Compares a language model of the shape of Qwen2.5-0.5B on the CPU with llama.cpp, PyTorch and peft.

    python3 bench/language/language_model.py BUILD_DIR [--only decode prefill lora open] [--threads N] [--rounds 3] [--layers 24] [--json FILE]

Weights are random; the speed does not depend on their values. Prints, with the bar of each:

    decode    tokens/s of one text at position 64 with weights in bf16, q8 and q4 (the tied head too): the share of the
              read bandwidth that the weights' bytes take, which each process measures just before (on a virtual machine it
              changes by the minute; the median of the rounds counts), and the ratio to llama.cpp with the same bytes (BF16, Q8_0,
              Q4_0)
    prefill   512 tokens from an empty cache, with the logits of the last, compared with llama.cpp and PyTorch in bf16 (f32 with
              --dtype f32)
    lora      a training step of 512 tokens, with adapters of rank 16 on all linear layers except the head, compared with PyTorch
              and peft
    open      the time from the start of `genesis-run generate` to its first token, with the file in the page cache, and the
              resident memory after 32 tokens relative to weights and KV cache

Both sides use the same number of threads and take turns in separate processes, and the fastest run of each counts, to limit the
effect of other work on the machine. --processor-time limits it further: it measures everything except `open` with one thread and
in processor time; shares of the bandwidth mean little then. --python names a Python with torch, transformers, peft, gguf and
llama_cpp (llama-cpp-python); comparisons with missing ones are skipped with a message. --layers 2 is a quick trial of everything;
its figures mean little, since the head dominates such a model.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TOKENIZER = os.path.join(ROOT, "tests", "models", "tokenizer", "qwen.json")
SHAPE = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2,
             num_hidden_layers=24, max_position_embeddings=2048)
FORMATS = {"bf16": "BF16", "q8": "Q8_0", "q4": "Q4_0"}  # llama.cpp's names
BYTES = {"bf16": 2, "q8": 34 / 32, "q4": 18 / 32}       # bytes per weight, scales included
BARS = {"share": 0.85, "prefill_llama": 1.0, "prefill_torch": 1.3, "lora": 1.5, "open_seconds": 1.0, "open_memory": 1.15}
TOKENS, POSITION = 512, 64


def process(words, what):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{what}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def genesis(flags, tool, *words):
    return process([os.path.join(flags.build, "tools", tool), *words], tool)


def peer(flags, script, *words):
    """Returns the report of a script in bench/peers, or why there is none."""
    clock = "processor" if flags.processor_time else "wall"
    report = json.loads(process([flags.python, os.path.join(ROOT, "bench", "peers", script), "--threads", flags.threads, "--clock", clock, *words], script))
    return report if "missing" not in report else report["missing"]


def processor_seconds(work):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    work()
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def bench(flags, model, entry, runs, *words):
    run = lambda runs: json.loads(genesis(flags, "genesis-run", "bench", model, "--entry", entry, "--threads", flags.threads,
                                          "--runs", runs, "--json", *words))
    if flags.processor_time:  # excludes loading, compiling and the first run
        return (processor_seconds(lambda: run(1 + runs)) - processor_seconds(lambda: run(1))) / runs
    report = run(runs)
    flags.read_gbps = report["peaks"]["read_gbps"]  # measured by that process, just before
    return report["min_ms"] * 1e-3


def shape_words(flags):
    return [f"{name}={value}" for name, value in {**SHAPE, "num_hidden_layers": flags.layers}.items()]


def model_of(flags, dtype):
    path = os.path.join(flags.folder, dtype + ".genesis")
    if os.path.exists(path):
        return path
    if dtype in ("bf16", "f32"):
        settings = [word for setting in [*shape_words(flags), "dtype=" + dtype] for word in ("--set", setting)]
        genesis(flags, "genesis-build", "qwen2", "-o", path, *settings)
    else:
        genesis(flags, "genesis-opt", model_of(flags, "bf16"), "-o", path, "--quantize", dtype, "--quantize-head", "--quantize-embedding")
    return path


def matrix_elements(flags):
    """Returns the number of weights that the products of a token read: those of the layers and of the tied head."""
    hidden, size = SHAPE["hidden_size"], SHAPE["hidden_size"] // SHAPE["num_attention_heads"]
    keys = SHAPE["num_key_value_heads"] * size
    layer = hidden * (2 * hidden + 2 * keys) + 3 * hidden * SHAPE["intermediate_size"]
    return flags.layers * layer + SHAPE["vocab_size"] * hidden


def take_turns(rounds, *sides):
    """Returns the least seconds of each side; a side that returns why it cannot run is not run again."""
    best = [None] * len(sides)
    for _ in range(rounds):
        for i, side in enumerate(sides):
            if not isinstance(best[i], str):
                now = side()
                best[i] = now if isinstance(now, str) or best[i] is None else min(best[i], now)
    return best


def beside(name, peer_seconds, seconds, bar=None):
    """Returns a text like 'llama.cpp 41.2 ms: 1.07x (bar 1.00x)', and the ratio."""
    if isinstance(peer_seconds, str):
        return f"{name}: {peer_seconds}", None
    ratio = peer_seconds / seconds
    return f"{name} {peer_seconds * 1e3:.1f} ms: {ratio:.2f}x" + (f" (bar {bar:.2f}x)" if bar else ""), ratio


def gguf_seconds(flags, format, *words):
    path = os.path.join(flags.folder, format + ".gguf")
    report = peer(flags, "llama_cpp_peer.py", path, "--format", format, "--shape", *shape_words(flags), *words)
    return report if isinstance(report, str) else report["seconds"]


def decode(flags):
    print(f"decode of one text at position {POSITION}")
    found = {}
    for format, theirs in FORMATS.items():
        model, weights, limits = model_of(flags, format), matrix_elements(flags) * BYTES[format], []

        def ours_once():
            seconds = bench(flags, model, "decode", flags.tokens, "--input", f"position=full:{POSITION}")
            if flags.read_gbps:  # not measured in processor time
                limits.append((weights / seconds / flags.read_gbps * 1e-9, flags.read_gbps))
            return seconds

        ours, llama = take_turns(flags.rounds, ours_once,
                                 lambda: gguf_seconds(flags, theirs, "--decode", flags.tokens, "--position", POSITION))
        share, read = sorted(limits)[len(limits) // 2] if limits else (None, None)
        of_limit = f"take {100 * share:.0f}% of {read:.1f} GB/s (bar {100 * BARS['share']:.0f}%)" if share else "are read"
        words, ratio = beside("llama.cpp " + FORMATS[format], llama, ours, None if format == "bf16" else 1.0)
        print(f"  {format}: {1 / ours:.1f} tokens/s, {ours * 1e3:.2f} ms; {weights * 1e-6:.0f} MB of weights "
              f"{of_limit}; {words}")
        found[format] = {"seconds": ours, "share": share, "llama": ratio, "read_gbps": read}
    return found


def prefill(flags):
    print(f"prefill of {TOKENS} tokens")
    model, found = model_of(flags, flags.dtype), {}
    torch_words = ["prefill", "--dtype", flags.dtype, "--tokens", TOKENS, "--shape", *shape_words(flags)]
    ours, llama, torch = take_turns(
        flags.rounds, lambda: bench(flags, model, "prefill", 4, "--size", f"seq={TOKENS}", "--input", f"length=full:{TOKENS}"),
        lambda: gguf_seconds(flags, {"bf16": "BF16", "f32": "F32"}[flags.dtype], "--prefill", TOKENS),
        lambda: seconds_of(peer(flags, "torch_language_model.py", *torch_words)))
    words, found["llama"] = beside("llama.cpp", llama, ours, BARS["prefill_llama"])
    more, found["torch"] = beside("PyTorch", torch, ours, BARS["prefill_torch"])
    print(f"  {flags.dtype}: {TOKENS / ours:.0f} tokens/s, {ours * 1e3:.1f} ms; {words}; {more}")
    for format in ("q8", "q4"):
        packed = model_of(flags, format)
        ours, llama = take_turns(flags.rounds, lambda: bench(flags, packed, "prefill", 4, "--size", f"seq={TOKENS}", "--input", f"length=full:{TOKENS}"),
                                 lambda: gguf_seconds(flags, FORMATS[format], "--prefill", TOKENS))
        words, found[format] = beside("llama.cpp " + FORMATS[format], llama, ours)
        print(f"  {format}: {TOKENS / ours:.0f} tokens/s, {ours * 1e3:.1f} ms; {words}")
    return found


def seconds_of(report):
    return report if isinstance(report, str) else report["seconds"]


def lora_model(flags):
    path, text = os.path.join(flags.folder, "lora.genesis"), os.path.join(flags.folder, "text.txt")
    with open(text, "w") as file:
        file.write("the quick brown fox jumps over the lazy dog\n" * 100)
    genesis(flags, "genesis-run", "train", model_of(flags, flags.dtype), "--data", text, "--lora", 16,
            "--lora-alpha", 32, "--optimizer", "adamw,lr=2e-4,clip=1.0", "--batch", 1, "--seq", 16, "--steps", 1, "--quiet", "-o", path)
    return path


def lora(flags):
    print(f"a LoRA step of {TOKENS} tokens, rank 16, AdamW, clipping")
    model, found = lora_model(flags), {}
    ours = lambda: bench(flags, model, "train_step", 3, "--size", "batch=1", "--size", f"seq={TOKENS}")
    variants = [lambda adapters=adapters: seconds_of(
        peer(flags, "torch_language_model.py", "lora", "--dtype", flags.dtype, "--adapters", adapters, "--tokens", TOKENS, "--shape",
             *shape_words(flags))) for adapters in dict.fromkeys(("f32", flags.dtype))]
    ours, *theirs = take_turns(flags.rounds, ours, *variants)
    fastest = min(theirs, key=lambda t: float("inf") if isinstance(t, str) else t)
    words, found["torch"] = beside("PyTorch with peft", fastest, ours, BARS["lora"])
    print(f"  {flags.dtype}: {TOKENS / ours:.0f} tokens/s, {ours:.2f} s; {words}")
    return {**found, "seconds": ours}


def open_file(flags):
    print("from the start of the program to the first token")
    model, command = model_of(flags, "bf16"), os.path.join(flags.build, "tools", "genesis-run")
    words = ["generate", model, "--tokenizer", TOKENIZER, "--prompt", "In the beginning", "--temperature", 0, "--threads", flags.threads]
    watch = [sys.executable, "-c", "import resource, subprocess, sys, time\nstart = time.perf_counter()\n"
             "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
             "print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"]
    measured = lambda tokens: [float(x) for x in process([*watch, command, *words, "--max-tokens", tokens], "generate").split()]
    measured(1)  # fills the page cache
    seconds = min(measured(1)[0] for _ in range(flags.rounds))
    resident = measured(32)[1]
    keys = SHAPE["hidden_size"] // SHAPE["num_attention_heads"] * SHAPE["num_key_value_heads"]
    cache = flags.layers * 2 * keys * SHAPE["max_position_embeddings"] * 2
    needed = os.path.getsize(model) + cache
    print(f"  {os.path.getsize(model) * 1e-9:.2f} GB: {seconds:.2f} s (bar {BARS['open_seconds']:.0f} s); resident {resident * 1e-6:.0f} MB, "
          f"{resident / needed:.3f}x of weights and KV cache (bar {BARS['open_memory']}x)")
    return {"seconds": seconds, "resident_bytes": resident, "memory": resident / needed}


PARTS = {"decode": decode, "prefill": prefill, "lora": lora, "open": open_file}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--processor-time", action="store_true", help="one thread, processor time instead of wall time")
    parser.add_argument("--layers", type=int, default=SHAPE["num_hidden_layers"])
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "f32"], help="of prefill and lora: bf16 where the CPU has it")
    parser.add_argument("--tokens", type=int, default=64, help="tokens decoded a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=os.environ.get("TORCH_PYTHON", sys.executable), help="for the peers")
    parser.add_argument("--json", help="write the results to this file")
    flags = parser.parse_args()
    if flags.processor_time:
        flags.threads = 1
    flags.read_gbps, results = 0.0, {"threads": flags.threads, "layers": flags.layers}
    with tempfile.TemporaryDirectory() as flags.folder:
        for part in flags.only:
            results[part] = PARTS[part](flags)
            sys.stdout.flush()
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump(results, file, indent=1)


main()
