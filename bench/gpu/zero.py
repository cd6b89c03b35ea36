#!/usr/bin/env python3
"""Compares training Qwen2.5-1.5B with ZeRO's stages on several GPUs of a host with PyTorch's FSDP2, 4 x 2048 tokens per GPU.

    python3 bench/gpu/zero.py BUILD_DIR [--gpus 2] [--only zero1,zero2,zero3,fsdp,...] [--layers 28] [--steps 24] [--memory-budget BYTES] [--json FILE]

Prints a line for each of these parts as soon as it is done: zero0 (every GPU has everything), zero1, zero2, zero3; and three
recipes of FSDP2, all with fully_shard of each layer and of the model, and with each layer compiled:

    fsdp            weights and gradients exchanged in bf16, the loss compiled too
    fsdp_own_loss   the same with the loss that transformers' model computes when it is given labels, which is not compiled
    fsdp_autocast   like fsdp, in f32 under bf16 autocast, the recipe for one GPU

A line has tokens/s of all GPUs, the memory planned for each (arena and states), the peak memory of the session or of PyTorch's
allocator, and the peak that nvidia-smi saw, including context and NCCL buffers. The losses of the stages are compared with those
of the first stage that was run. Bars against FSDP2: 1.4x tokens/s at 0.6x of the memory.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from watched_gpus import WatchedGpus

QWEN = dict(vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_attention_heads=12, num_key_value_heads=2,
            max_position_embeddings=4096)
BATCH, SEQ, WARMUP = 4, 2048, 8
STAGES, PEERS = ("zero0", "zero1", "zero2", "zero3"), ("fsdp", "fsdp_own_loss", "fsdp_autocast")
PARTS = STAGES + PEERS
GIB = 1 << 30


def run(words, seconds):
    """Returns the standard output, or why there is none."""
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=seconds,
                              env={**os.environ, "NCCL_NVLS_ENABLE": "0"})
    except subprocess.TimeoutExpired:
        return None, f"took more than {seconds} s"
    except OSError as error:
        return None, str(error)
    if done.returncode:
        return None, done.stderr.strip()[-1500:]
    return done.stdout, None


def tool(flags, name):
    return os.path.join(flags.build, "tools", name)


def make_files(flags, folder):
    model, training = os.path.join(folder, "model.genesis"), os.path.join(folder, "train.genesis")
    settings = {**QWEN, "num_hidden_layers": flags.layers}
    steps = ([tool(flags, "genesis-build"), "qwen2", "-o", model, *(x for k, v in settings.items() for x in ("--set", f"{k}={v}"))],
             [tool(flags, "genesis-opt"), model, "-o", training, "--train", "adamw,lr=1e-4,clip=1.0", "--cast", "bf16"])
    for words in steps:
        _, why_not = run(words, 240)
        if why_not:
            sys.exit(f"{' '.join(words[:2])}: {why_not}")
    os.remove(model)
    tokens = np.random.default_rng(1).integers(0, QWEN["vocab_size"], (8 * BATCH * flags.gpus, SEQ + 1), dtype=np.int64)
    np.save(os.path.join(folder, "tokens.npy"), np.ascontiguousarray(tokens[:, :-1]))
    np.save(os.path.join(folder, "targets.npy"), np.ascontiguousarray(tokens[:, 1:]))
    return training


def train(flags, folder, training, stage):
    metrics = os.path.join(folder, f"zero{stage}.jsonl")
    words = [tool(flags, "genesis-run"), "train", training, "--batch", BATCH * flags.gpus, "--steps", flags.steps, "--device", "cuda", "--metrics", metrics,
             "--json", "--mesh", f"data={flags.gpus}", "--zero", stage, *(("--memory-budget", flags.memory_budget) if flags.memory_budget else ())]
    for kind in ("tokens", "targets"):
        words += ["--data", f"{kind}={os.path.join(folder, kind + '.npy')}"]
    with WatchedGpus() as seen:
        out, why_not = run(words, flags.limit)
    if why_not:
        return {"failed": why_not}
    with open(metrics) as file:
        rows = [json.loads(line) for line in file]
    summary = json.loads(out)
    return {"seconds": (rows[-1]["seconds"] - rows[WARMUP - 1]["seconds"]) / (len(rows) - WARMUP), "losses": [row["loss"] for row in rows],
            "planned_bytes": summary["arena_bytes"] + summary["state_bytes"], "held_bytes": summary["device_peak_bytes"], "seen_bytes": seen.most_bytes()}


def fsdp(flags, peer):
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", flags.gpus, os.path.abspath(__file__), flags.build,
             "--torch-worker", peer, "--layers", flags.layers, "--steps", flags.steps]
    with WatchedGpus() as seen:
        out, why_not = run(words, flags.limit)
    if why_not:
        return {"failed": why_not}
    row = json.loads([line for line in out.splitlines() if line.startswith("{")][-1])
    return {"seconds": row["seconds"], "held_bytes": row["peak_bytes"], "seen_bytes": seen.most_bytes(), "losses": row["losses"]}


def sharded_model(autocast, layers):
    """Returns a model with each layer compiled and sharded, computing in f32 for autocast, else in bf16."""
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from transformers import Qwen2Config, Qwen2ForCausalLM
    config = Qwen2Config(**QWEN, num_hidden_layers=layers, rope_theta=1e6, tie_word_embeddings=True, attn_implementation="sdpa", use_cache=False)
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(config).train()
    policy = MixedPrecisionPolicy() if autocast else MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for layer in model.model.layers:
        layer.compile()
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    return model


def torch_worker(peer, layers, steps):
    """One rank of FSDP2, started by torchrun."""
    import torch
    import torch.distributed as dist
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    autocast = peer == "fsdp_autocast"
    model = sharded_model(autocast, layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(QWEN["vocab_size"], (BATCH, SEQ + 1), device="cuda")

    @torch.compile
    def cross_entropy(logits, targets):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def loss_of(inputs, targets):
        if peer == "fsdp_own_loss":
            return model(input_ids=inputs, labels=inputs).loss  # shifts the labels itself
        return cross_entropy(model(input_ids=inputs).logits, targets)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = loss_of(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    losses = [step() for _ in range(WARMUP)]
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    dist.barrier()
    start = time.perf_counter()
    losses += [step() for _ in range(steps - WARMUP)]
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / (steps - WARMUP)
    if rank == 0:
        print(json.dumps({"seconds": seconds, "peak_bytes": torch.cuda.max_memory_allocated(), "losses": [float(loss) for loss in losses]}), flush=True)
    dist.destroy_process_group()


def line_of(part, row, flags):
    if "failed" in row:
        return f"{part:13} failed: {row['failed']}"
    tokens = flags.gpus * BATCH * SEQ / row["seconds"]
    planned = f"planned {row['planned_bytes'] / GIB:6.2f}, " if "planned_bytes" in row else ""
    return (f"{part:13} {tokens:9.0f} tokens/s, {1e3 * row['seconds']:7.1f} ms a step; GiB a GPU: {planned}held {row['held_bytes'] / GIB:6.2f}, "
            f"seen {row['seen_bytes'] / GIB:6.2f}; loss {row['losses'][0]:.3f} -> {row['losses'][-1]:.3f}")


def comparisons(rows):
    first = next((part for part in STAGES if "losses" in rows.get(part, {})), None)
    for part in STAGES:
        if "losses" not in rows.get(part, {}):
            continue
        row = rows[part]
        if part != first:
            apart = max(abs(a - b) / abs(b) for a, b in zip(row["losses"], rows[first]["losses"]))
            yield f"{part}: losses {'have the bits' if apart == 0 else f'are {apart:.1e} from those'} of {first}"
        for peer in (peer for peer in PEERS if "seconds" in rows.get(peer, {})):
            yield (f"{part}: {rows[peer]['seconds'] / row['seconds']:.2f}x the tokens/s of {peer} (bar 1.4), "
                   f"{row['held_bytes'] / rows[peer]['held_bytes']:.2f}x its memory (bar 0.6)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--only", default=",".join(PARTS[1:]), help="parts, separated by commas")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--limit", type=float, default=120, help="seconds that a part may take")
    parser.add_argument("--memory-budget", help="of Genesis' arena on each GPU, as genesis-run train takes it")
    parser.add_argument("--torch-worker", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--json")
    flags = parser.parse_args()
    if flags.torch_worker:
        return torch_worker(flags.torch_worker, flags.layers, flags.steps)
    wanted = flags.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    if flags.steps <= WARMUP:
        parser.error(f"--steps: {WARMUP} steps come first, and are not timed")
    rows = {}
    print(f"Qwen2.5-1.5B with {flags.layers} layers, bf16, {BATCH} x {SEQ} a GPU, {flags.gpus} GPUs", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        training = make_files(flags, folder) if set(wanted) & set(STAGES) else None
        for part in PARTS:
            if part in wanted:
                rows[part] = fsdp(flags, part) if part in PEERS else train(flags, folder, training, int(part[4:]))
                print(line_of(part, rows[part], flags), flush=True)
    for text in comparisons(rows):
        print(text)
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
