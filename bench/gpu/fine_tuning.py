#!/usr/bin/env python3
"""Compares fine-tuning Qwen2.5-0.5B on one GPU, on packed rows of 8 x 1024 tokens: `genesis-run train` and torch.compile.

    python3 bench/gpu/fine_tuning.py BUILD_DIR [--only full lora] [--layers 24] [--steps 40] [--learnt 0.6] [--rows 8] [--json FILE]

full: trains all weights, in f32 with products in bf16. lora: adapters of rank 16 on all linear layers except the head, on bf16
weights; the adapters are f32, with products in bf16 too. A row holds several conversations of 64 to 512 tokens, which attention
keeps apart. The last fraction `--learnt` of each conversation, the assistant's part, counts in the loss. Both sides use the same
rows, AdamW and clipping. The variants of PyTorch (torch_fine_tuning.py) are compiled in parallel and timed one after the other;
the fastest counts. The random weights differ, so losses differ too, but must fall alike from ln 151936 = 11.9. --profile prints
the time of each of our steps.
Bar: 1.4x of the fastest variant, for full and for lora. --device cpu --layers 2 --seq 128 --eager is a dry run without a GPU; its
figures mean nothing.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BAR, WARMUP = 1.4, 10
NAMES = ("tokens", "targets", "positions", "segments")
# The variants of PyTorch, each as words for torch_fine_tuning.py.
PEERS = {"full": [("varlen",), ("flex",), ("sdpa",)], "lora": [("varlen", "f32"), ("varlen", "bf16"), ("flex", "bf16"), ("sdpa", "bf16")]}


def shape_of(flags):
    if flags.device == "cpu":
        return dict(vocab_size=4096, hidden_size=128, intermediate_size=256, num_attention_heads=2, num_key_value_heads=1,
                    max_position_embeddings=flags.seq, num_hidden_layers=flags.layers)
    return dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2,
                max_position_embeddings=4096, num_hidden_layers=flags.layers)


def write_rows(flags, shape):
    """Writes rows without padding: the last conversation of a row is cut. Returns the number of conversations and the fraction of
    targets that count."""
    draw = np.random.default_rng(1)
    samples = 8 * flags.rows
    tokens = draw.integers(0, shape["vocab_size"], (samples, flags.seq + 1), dtype=np.int64)
    targets, positions, segments = tokens[:, 1:].copy(), np.zeros((samples, flags.seq), np.int64), np.zeros((samples, flags.seq), np.int64)
    texts = 0
    for row in range(samples):
        start, segment = 0, 0
        while start < flags.seq:
            length = min(int(draw.integers(flags.seq // 16, flags.seq // 2 + 1)), flags.seq - start)
            positions[row, start:start + length] = np.arange(length)
            segments[row, start:start + length] = segment
            targets[row, start:start + int(length * (1 - flags.learnt))] = -100
            targets[row, start + length - 1] = -100  # nothing follows the last token
            start, segment = start + length, segment + 1
        texts += segment
    for name, array in zip(NAMES, (tokens[:, :-1], targets, positions, segments)):
        np.save(os.path.join(flags.folder, name + ".npy"), np.ascontiguousarray(array))
        np.save(os.path.join(flags.folder, name + "_of_step.npy"), np.ascontiguousarray(array[:flags.rows]))
    with open(os.path.join(flags.folder, "shape.json"), "w") as file:
        json.dump(shape, file)
    return texts, float((targets >= 0).mean())


def tool(flags, name, *words):
    environment = {**os.environ, "XDG_CACHE_HOME": os.path.join(flags.folder, "cache")}
    done = subprocess.run([os.path.join(flags.build, "tools", name), *map(str, words)], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{name} {' '.join(map(str, words))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def model_of(flags, part, shape):
    """Returns the model to train, and additional arguments for `genesis-run train`."""
    path, ready = (os.path.join(flags.folder, name) for name in ("base.genesis", "train.genesis"))
    settings = {**shape, **({"dtype": "bf16"} if part == "lora" else {})}
    tool(flags, "genesis-build", "qwen2", "-o", path, *(word for pair in settings.items() for word in ("--set", "=".join(map(str, pair)))))
    if part == "lora":
        return path, ["--lora", 16, "--lora-alpha", 32, "--optimizer", "adamw,lr=2e-4,clip=1.0,entry=loss_packed,precision=bf16"]
    tool(flags, "genesis-opt", path, "-o", ready, "--train", "adamw,lr=1e-5,clip=1.0,entry=loss_packed", "--cast", "bf16")
    os.remove(path)
    return ready, []


def profile(flags, part, model, words, data):
    if part == "lora":  # adapters become part of a file when it is saved
        saved = os.path.join(flags.folder, "lora.genesis")
        tool(flags, "genesis-run", "train", model, *words, *data, "--batch", flags.rows, "--steps", 1, "--device", flags.device, "--quiet", "-o", saved)
        model = saved
    inputs = [word for name in NAMES for word in ("--input", f"{name}={os.path.join(flags.folder, name + '_of_step.npy')}")]
    table = tool(flags, "genesis-run", "profile", model, "--entry", "train_step", "--device", flags.device, *inputs, "--by-op", "--runs", 3)
    print(f"{part}, steps one by one:", *(line[:170] for line in table.splitlines()[:32]), sep="\n  ", flush=True)


def train(flags, part, shape):
    model, words = model_of(flags, part, shape)
    metrics = os.path.join(flags.folder, part + ".jsonl")
    data = [word for name in NAMES
            for word in ("--data", f"{name}={os.path.join(flags.folder, name + '.npy')}")]
    report = json.loads(tool(flags, "genesis-run", "train", model, *words, *data, "--batch", flags.rows, "--steps", flags.steps, "--device",
                             flags.device, "--metrics", metrics, "--quiet", "--json", *flags.more.split()))
    if flags.profile:
        profile(flags, part, model, words, data)
    os.remove(model)
    with open(metrics) as file:
        steps = [json.loads(line) for line in file]
    seconds = (steps[-1]["seconds"] - steps[WARMUP - 1]["seconds"]) / (len(steps) - WARMUP)
    return {"seconds": seconds, "losses": [step["loss"] for step in steps], "first_seconds": steps[0]["seconds"],
            "peak_bytes": report.get("device_peak_bytes", report["arena_bytes"] + report["state_bytes"])}


def start_peer(flags, part, peer):
    """Starts a peer and returns it with its log. The peer is killed if it takes longer than --limit."""
    words = [flags.python, os.path.join(HERE, "torch_fine_tuning.py"), flags.folder, "--part", part, "--attention", peer[0], "--batch",
             flags.rows, "--device", flags.device, *(["--adapters", peer[1]] if len(peer) > 1 else []), *(["--eager"] if flags.eager else [])]
    log = open(os.path.join(flags.folder, "-".join((part, *peer)) + ".log"), "w+")
    peer = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    timer = threading.Timer(flags.limit, peer.kill)
    timer.daemon = True
    timer.start()
    return peer, log


def line_of(peer):
    """Returns the peer's next line of the protocol; empty: the peer has ended."""
    for line in peer.stdout:
        if line.startswith(("ready", "{")):
            return line
    return ""


def answer_of(peer):
    """Tells a peer that is ready to start, and returns its measurement; empty: the peer has ended."""
    try:
        peer.stdin.write("go\n")
        peer.stdin.flush()
    except BrokenPipeError:
        return ""
    return line_of(peer)


def peers(flags, part):
    """Returns the result of each variant of PyTorch, or why it could not run."""
    started = {" ".join(peer): start_peer(flags, part, peer) for peer in PEERS[part] if not flags.implementations or peer[0] in flags.implementations}
    ready = {name: line_of(peer) != "" for name, (peer, _) in started.items()}
    found = {}
    for name, (peer, log) in started.items():
        report = ""
        if ready[name]:
            report = answer_of(peer)
        peer.wait()
        log.seek(0)
        late = f"it took more than {flags.limit:.0f} s" if peer.returncode == -signal.SIGKILL else ""
        found[name] = json.loads(report) if report else {"error": late or log.read().strip()[-600:]}
    return found


def words_of(run, tokens):
    return (f"{1e3 * run['seconds']:.1f} ms, {1 / run['seconds']:.2f} steps/s, {tokens / run['seconds']:.0f} tokens/s, "
            f"{run['peak_bytes'] / 2**30:.1f} GiB, losses {run['losses'][0]:.3f} to {run['losses'][4]:.3f}")


def compare(ours, theirs, tokens):
    """Prints the results of PyTorch's variants and returns the fastest, or None if none ran."""
    runs = {name: run for name, run in theirs.items() if "error" not in run}
    for name, run in theirs.items():
        print(f"  torch.compile, {name}{', ' + run['adapters'] if run.get('adapters') else ''}: {words_of(run, tokens)}" if name in runs
              else f"  torch.compile, {name}: could not run: {run['error'].splitlines()[-1] if run['error'] else 'it ended'}", flush=True)
    if not runs:
        return None
    best = min(runs, key=lambda name: runs[name]["seconds"])
    ratio = runs[best]["seconds"] / ours["seconds"]
    print(f"  {ratio:.2f}x of the fastest, {best} (bar {BAR:.2f}x), in {ours['peak_bytes'] / max(1, runs[best]['peak_bytes']):.2f}x of its memory", flush=True)
    return {"best": best, "ratio": ratio}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--implementations", nargs="+", choices=["varlen", "flex", "sdpa"], help="of PyTorch; default: all")
    parser.add_argument("--skip-torch", action="store_true")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--learnt", type=float, default=0.6, help="share of a conversation that the assistant says")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--eager", action="store_true", help="PyTorch without compiling")
    parser.add_argument("--more", default="", help="more words for genesis-run train, such as --disable kernel:NAME")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--limit", type=float, default=300, help="seconds that PyTorch may take to compile and run")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json")
    flags = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as flags.folder:
        shape = shape_of(flags)
        texts, counted = write_rows(flags, shape)
        print(f"Qwen2.5-0.5B, bf16, {flags.rows} x {flags.seq} a step, {texts / (8 * flags.rows):.1f} conversations a row, {100 * counted:.0f}% of the tokens learnt")
        for part in flags.only:
            ours = train(flags, part, shape)
            tokens = flags.rows * flags.seq
            print(f"{part}: Genesis {words_of(ours, tokens)} (the first step after {ours['first_seconds']:.1f} s)", flush=True)
            theirs = {} if flags.skip_torch else peers(flags, part)
            results[part] = {"genesis": ours, "torch": theirs, **(compare(ours, theirs, tokens) or {})}
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
