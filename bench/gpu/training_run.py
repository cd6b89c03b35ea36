"""Helpers of the scripts about training: running the tools of a build, Qwen2.5-0.5B's shape with random samples, and reading a
run's metrics."""
import json
import os
import subprocess
import sys

QWEN = dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2,
            max_position_embeddings=4096)
KINDS = ("tokens", "targets")


def run(build, tool, *words):
    """Returns the output of a tool; if the tool fails, the script ends with its error message."""
    done = subprocess.run([os.path.join(build, "tools", tool), *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{tool} {' '.join(map(str, words))}: {done.stderr.strip()[-3000:]}")
    return done.stdout


def make_training(build, folder, train, *more, samples, seq, settings):
    """Makes folder/train.genesis, with `train` as the value of genesis-opt --train, and samples [samples, seq] for
    data_flags()."""
    import numpy as np

    path = os.path.join(folder, "model.genesis")
    run(build, "genesis-build", "qwen2", "-o", path, *(x for k, v in settings.items() for x in ("--set", f"{k}={v}")))
    run(build, "genesis-opt", path, "-o", os.path.join(folder, "train.genesis"), "--train", train, *more)
    os.remove(path)
    tokens = np.random.default_rng(1).integers(0, settings["vocab_size"], (samples, seq + 1), dtype=np.int64)
    for kind, part in zip(KINDS, (tokens[:, :-1], tokens[:, 1:])):
        np.save(os.path.join(folder, kind + ".npy"), np.ascontiguousarray(part))


def data_flags(folder, flag="--data"):
    return [word for kind in KINDS for word in (flag, f"{kind}={os.path.join(folder, kind + '.npy')}")]


def read_rows(metrics):
    with open(metrics) as file:
        return [json.loads(line) for line in file]


def seconds_of_a_step(rows, warmup):
    """Returns the mean over the steps after the first `warmup` ones."""
    return (rows[-1]["seconds"] - rows[warmup - 1]["seconds"]) / (len(rows) - warmup)


def write_json(path, result):
    if path:
        with open(path, "w") as file:
            json.dump(result, file, indent=1)
