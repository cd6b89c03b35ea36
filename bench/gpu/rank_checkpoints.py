#!/usr/bin/env python3
"""Measures checkpoints that all GPUs of a host write together during training of Qwen2.5-0.5B, and evaluations that they share.

    python3 bench/gpu/rank_checkpoints.py BUILD_DIR [--gpus 2] [--layers 24] [--every 15] [--folder FOLDER] [--json FILE]

Prints the seconds of a step with and without checkpoints, how long a step stood still for one, the bytes of each part, the loss
of an evaluation on one GPU and on all; then kills a rank with SIGKILL while a checkpoint is written, and resumes on one GPU.
FOLDER is the place of the checkpoints: its disk affects the results.
"""
import argparse
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from training_run import QWEN, data_flags, make_training, read_rows, run, seconds_of_a_step, write_json

BATCH, SEQ, WARMUP = 8, 512, 8


def train_words(folder, gpus, steps, *more):
    words = ["train", os.path.join(folder, "train.genesis"), "--batch", BATCH * 2, "--steps", steps, "--device", "cuda", "--quiet", "--json"]
    return words + data_flags(folder) + (["--mesh", f"data={gpus}", "--zero", 1] if gpus > 1 else []) + list(more)


def train(flags, folder, gpus, steps, *more):
    """Returns the report of the run and the rows of its metrics."""
    metrics = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(metrics):
        os.remove(metrics)
    said = json.loads(run(flags.build, "genesis-run", *train_words(folder, gpus, steps, "--metrics", metrics, *more)))
    return said, read_rows(metrics)


def ranks_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def kill_while_writing(flags, folder, run_folder):
    """Kills the second rank once a second checkpoint has begun. Returns the seconds until the run ended, and its last error
    line."""
    words = train_words(folder, flags.gpus, 100000, "--checkpoint", run_folder, "--checkpoint-every", flags.every)
    process = subprocess.Popen([os.path.join(flags.build, "tools", "genesis-run"), *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(glob.glob(run_folder + "/*.parts")) < 2:
        time.sleep(0.005)
    killed = time.monotonic()
    if process.poll() is None:
        os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
    error = process.communicate()[1]
    return time.monotonic() - killed, error.strip().splitlines()[-1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--every", type=int, default=15)
    parser.add_argument("--folder")
    parser.add_argument("--json")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        run_folder = os.path.join(folder, "run")
        make_training(flags.build, folder, "adamw,lr=1e-4,clip=1.0,precision=bf16", samples=64, seq=SEQ,
                      settings={**QWEN, "num_hidden_layers": flags.layers})
        steps = WARMUP + 3 * flags.every
        evaluation = data_flags(folder, "--eval-data")
        alone, _ = train(flags, folder, 1, 2, *evaluation)
        shared, _ = train(flags, folder, flags.gpus, 2, *evaluation)
        _, plain = train(flags, folder, flags.gpus, steps)
        said, written = train(flags, folder, flags.gpus, steps, "--checkpoint", run_folder, "--checkpoint-every", flags.every)
        parts = [os.path.getsize(part) for part in sorted(glob.glob(f"{run_folder}/step-{steps:09}.parts/*"))]
        shutil.rmtree(run_folder)
        seconds, last_word = kill_while_writing(flags, folder, run_folder)
        whole = max(int(os.path.basename(name)[5:14]) for name in glob.glob(run_folder + "/step-*.genesis"))
        resumed, rows = train(flags, folder, 1, whole + 2, "--checkpoint", run_folder, "--resume")
    result = {"step_seconds": seconds_of_a_step(plain, WARMUP), "step_seconds_with_checkpoints": seconds_of_a_step(written, WARMUP),
              "stall_seconds": said["checkpoint_stall_seconds"], "part_bytes": parts,
              "evaluation_one": alone["evaluation_loss"], "evaluation_all": shared["evaluation_loss"],
              "seconds_to_end_after_a_kill": seconds, "resumed_at": rows[0]["step"], "steps": resumed["step"]}
    print(f"{flags.gpus} GPUs, --zero 1: {1e3 * result['step_seconds']:.1f} ms a step, {1e3 * result['step_seconds_with_checkpoints']:.1f} with a checkpoint "
          f"every {flags.every}; longest stall {1e3 * result['stall_seconds']:.1f} ms; parts of {', '.join(f'{b / 1e9:.2f} GB' for b in parts)}")
    print(f"evaluation: {result['evaluation_one']:.7f} on one GPU, {result['evaluation_all']:.7f} on {flags.gpus}, "
          f"{abs(result['evaluation_all'] / result['evaluation_one'] - 1):.1e} apart (after 2 steps in bf16)")
    print(f"a rank killed while a checkpoint was written: the run ended in {seconds:.1f} s ({' '.join(last_word)}); one GPU went on from step {result['resumed_at'] - 1}")
    write_json(flags.json, result)


if __name__ == "__main__":
    main()
