#!/usr/bin/env python3
"""Compares training Qwen2.5-0.5B on several GPUs of a host, each with 8 x 1024 tokens a step, with one GPU and with PyTorch.

    python3 bench/gpu/data_parallel.py BUILD_DIR [--gpus 2] [--zero 0,1] [--layers 24] [--steps 40] [--skip-torch] [--json FILE]

Prints tokens/s of each GPU alone and of all GPUs for each ZeRO stage in --zero; the scaling, relative to N times the slowest GPU,
for which the others wait, and to N times the first GPU; and tokens/s of DistributedDataParallel with torch.compile in the same
run. The same samples on one GPU must give the same losses, up to the precision of bf16, and a second run the same bits.
Bars: 0.97 of N times one GPU; 1.7x of PyTorch.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from training_run import QWEN, data_flags, make_training, read_rows, run, seconds_of_a_step, write_json
from watched_gpus import WatchedGpus

BATCH, SEQ, WARMUP = 8, 1024, 10


def train(flags, folder, gpus, batch, name, device="cuda", zero=0):
    """Returns the losses by step, the seconds of a step after warm-up, and the clocks and power of the GPUs."""
    metrics = os.path.join(folder, name + ".jsonl")
    words = ["train", os.path.join(folder, "train.genesis"), "--batch", batch, "--steps", flags.steps, "--device", device, "--metrics", metrics, "--quiet",
             *data_flags(folder)]
    if gpus > 1:
        words += ["--mesh", f"data={gpus}", "--zero", zero]
    with WatchedGpus() as seen:
        run(flags.build, "genesis-run", *words)
    rows = read_rows(metrics)
    return [row["loss"] for row in rows], seconds_of_a_step(rows, WARMUP), seen.busy()


def train_at_once(flags, folder):
    """Runs independent training on every GPU at the same time and returns the seconds of a step of each. A slowdown here is not
    due to exchanges."""
    with ThreadPoolExecutor(flags.gpus) as pool:
        runs = [pool.submit(train, flags, folder, 1, BATCH, f"beside{gpu}", f"cuda:{gpu}") for gpu in range(flags.gpus)]
        return [each.result()[1] for each in runs], runs[0].result()[2]


def clocks_text(busy):
    return ", ".join(f"{gpu['mhz']:.0f} MHz at {gpu['watts']:.0f} W" for gpu in busy)


def torch_worker(layers, steps):
    """One rank of DistributedDataParallel, started by torchrun."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from transformers import Qwen2Config, Qwen2ForCausalLM
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    config = Qwen2Config(**QWEN, num_hidden_layers=layers, rope_theta=1e6, tie_word_embeddings=True, attn_implementation="sdpa")
    model = DistributedDataParallel(Qwen2ForCausalLM(config).cuda().train(), device_ids=[rank], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(QWEN["vocab_size"], (BATCH, SEQ), device="cuda")

    def loss_of(tokens):
        with torch.autocast("cuda", torch.bfloat16):
            return model(input_ids=tokens, labels=tokens, use_cache=False).loss

    forward = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward(tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    for _ in range(WARMUP):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(steps - WARMUP):
        step()
    torch.cuda.synchronize()
    if rank == 0:
        print(json.dumps({"seconds": (time.perf_counter() - start) / (steps - WARMUP), "peak_bytes": torch.cuda.max_memory_allocated()}))
    dist.destroy_process_group()


def torch_seconds(flags, gpus):
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus), os.path.abspath(__file__), flags.build, "--torch-worker",
             "--layers", str(flags.layers), "--steps", str(flags.steps)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env={**os.environ, "NCCL_NVLS_ENABLE": "0"})
    if done.returncode:
        print(f"PyTorch could not run: {done.stderr.strip()[-1500:]}")
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--zero", default="0,1", help="ZeRO's stages, separated by commas; the fastest is looked at further")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--skip-torch", action="store_true")
    parser.add_argument("--torch-worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    flags = parser.parse_args()
    if flags.torch_worker:
        return torch_worker(flags.layers, flags.steps)
    with tempfile.TemporaryDirectory() as folder:
        make_training(flags.build, folder, "adamw,lr=1e-4,clip=1.0", "--cast", "bf16", samples=64 * flags.gpus, seq=SEQ,
                      settings={**QWEN, "num_hidden_layers": flags.layers})
        runs = [train(flags, folder, 1, BATCH, f"one{gpu}", f"cuda:{gpu}") for gpu in range(flags.gpus)]
        ones, alone_clocks = [seconds for _, seconds, _ in runs], [busy[gpu] for gpu, (_, _, busy) in enumerate(runs) if gpu < len(busy)]
        besides, beside_clocks = train_at_once(flags, folder)
        stages = {zero: train(flags, folder, flags.gpus, BATCH * flags.gpus, f"zero{zero}", zero=zero) for zero in map(int, flags.zero.split(","))}
        best = min(stages, key=lambda zero: stages[zero][1])
        losses, all_of, clocks = stages[best]
        again, _, _ = train(flags, folder, flags.gpus, BATCH * flags.gpus, "again", zero=best)
        alone, _, _ = train(flags, folder, 1, BATCH * flags.gpus, "alone")
    apart = max(abs(a - b) / abs(b) for a, b in zip(losses, alone))
    peer = None if flags.skip_torch else torch_seconds(flags, flags.gpus)
    result = {"stages": {zero: {"tokens_per_second": flags.gpus * BATCH * SEQ / seconds, "scaling": max(ones) / seconds} for zero, (_, seconds, _) in stages.items()},
              "zero": best, "one_tokens_per_second": [BATCH * SEQ / one for one in ones], "tokens_per_second": flags.gpus * BATCH * SEQ / all_of,
              "scaling": max(ones) / all_of, "scaling_from_first": ones[0] / all_of, "losses_apart": apart, "same_bits_again": losses == again, "torch": peer,
              "at_once_tokens_per_second": [BATCH * SEQ / one for one in besides], "clocks": {"alone": alone_clocks, "at_once": beside_clocks, "together": clocks}}
    for zero, row in result["stages"].items():
        print(f"--zero {zero}: {row['tokens_per_second']:.0f} tokens/s, {row['scaling']:.3f} of {flags.gpus} times the slowest", flush=True)
    print(f"--zero {best} from here on. Qwen2.5-0.5B, bf16, {BATCH} x {SEQ} a GPU: alone {', '.join(f'{each:.0f}' for each in result['one_tokens_per_second'])} tokens/s, "
          f"{flags.gpus} GPUs {result['tokens_per_second']:.0f}: {result['scaling']:.3f} of {flags.gpus} times the slowest, "
          f"{result['scaling_from_first']:.3f} of the first; losses {apart:.1e} from one GPU's with the same samples; "
          f"again the {'same' if losses == again else 'OTHER'} bits")
    print(f"at once, each for itself: {', '.join(f'{each:.0f}' for each in result['at_once_tokens_per_second'])} tokens/s; "
          f"clocks alone {clocks_text(alone_clocks)}; at once {clocks_text(beside_clocks)}; together {clocks_text(clocks)}")
    if peer:
        result["ratio"] = peer["seconds"] / all_of
        print(f"DistributedDataParallel, compiled: {flags.gpus * BATCH * SEQ / peer['seconds']:.0f} tokens/s; {result['ratio']:.2f}x")
    write_json(flags.json, result)


if __name__ == "__main__":
    main()
