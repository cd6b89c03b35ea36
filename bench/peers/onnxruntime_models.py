#!/usr/bin/env python3
"""Times models in onnxruntime and in Genesis on a CPU, in one process and in turns, and compares their numbers.

    python3 bench/peers/onnxruntime_models.py BUILD [FILE.onnx ...] [--models FOLDER] [--wheels FOLDER] [--threads 1]

BUILD is a build folder, whose libgenesis.so is used. Without files the models are those of exported_models.py, kept in --models.
With one thread, times are processor time, so that a busy machine can be used, else wall time; the least of many rounds counts.
Opening is from the .onnx file to a session with its plan: the first run less a later one, in processes of their own, as a program
opens a file: in a process that has opened it before, onnxruntime's allocator has the pages of that time. Needs onnxruntime; if it
is missing, prints a message and exits with 0.
"""
import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnxruntime
except ImportError as error:
    print(f"{error.name} is missing: the comparison with onnxruntime is skipped")
    sys.exit(0)


def random_inputs(session):
    random, types = np.random.default_rng(0), {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    return {i.name: (random.random([d if isinstance(d, int) else 1 for d in i.shape]) * (1000 if "int" in i.type else 1)).astype(types[i.type])
            for i in session.get_inputs()}


def peer_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Case:
    """One model in both: runs and openings, as functions."""

    def __init__(self, genesis, path, threads):
        self.genesis, self.path, self.threads = genesis, path, threads
        self.peer = peer_session(path, threads)
        self.inputs = random_inputs(self.peer)
        self.session = genesis.load(str(path)).session(threads=threads)
        self.renamed = {self.own_name(name): value for name, value in self.inputs.items()}

    def own_name(self, name):
        return "".join(c if c.isalnum() or c == "_" else "_" for c in name)

    def run_ours(self):
        return self.session.run("forward", **self.renamed)

    def run_theirs(self):
        return self.peer.run(None, self.inputs)

    def difference(self):
        ours = [np.from_dlpack(t) for t in self.run_ours().values()]
        return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(ours, self.run_theirs(), strict=True))


def least_seconds(functions, clock, seconds, most):
    """The least time of each function; they take turns, a few calls each, until `seconds` are over or all had `most` rounds."""
    least, end = [math.inf] * len(functions), time.monotonic() + seconds
    for done in range(most):
        if done >= 3 and time.monotonic() > end:
            break
        for i, function in enumerate(functions):
            for _ in range(2 if least[i] > 0.01 else 20):
                start = clock()
                function()
                least[i] = min(least[i], clock() - start)
    return least


def clock_of(threads):
    return time.process_time if threads == 1 else time.perf_counter


def print_opening(genesis, flags):
    """Prints the seconds of the first run with opening, less those of a later run, for inputs that the calling process has saved."""
    who, path, inputs = flags.opening
    inputs, clock = dict(np.load(inputs)), clock_of(flags.threads)
    start = clock()
    if who == "theirs":
        session = peer_session(path, flags.threads)
        run = lambda: session.run(None, inputs)
    else:
        model = genesis.load(path).session(threads=flags.threads)
        run = lambda: model.run("forward", **inputs)
    run()
    opened = clock() - start
    print(opened - least_seconds([run], clock, 0, 3)[0])


def opening_seconds(case, flags):
    """The least seconds of opening in a new process, ours and theirs, which take turns."""
    least = [math.inf] * 2
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2 * flags.openings):
            who, inputs = (("ours", case.renamed), ("theirs", case.inputs))[number % 2]
            np.savez(f"{folder}/{who}.npz", **inputs)
            command = [sys.executable, __file__, str(flags.build), "--threads", str(flags.threads), "--opening", who, str(case.path),
                       f"{folder}/{who}.npz"]
            least[number % 2] = min(least[number % 2], float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return least


def row(case, flags):
    clock = clock_of(flags.threads)
    difference = case.difference()
    ours, theirs = least_seconds([case.run_ours, case.run_theirs], clock, flags.seconds, 200)
    first = opening_seconds(case, flags)
    print(f"| {case.path.stem} | {1e3 * ours:.2f} | {1e3 * theirs:.2f} | {theirs / ours:.2f}x | {1e3 * first[0]:.1f} | "
          f"{1e3 * first[1]:.1f} | {first[0] / first[1]:.2f}x | {difference:.0e} |", flush=True)
    return theirs / ours, first[0] / first[1]


def mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "genesis-peer-models")
    parser.add_argument("--wheels", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--openings", type=int, default=4, help="processes that open each file, ours and theirs")
    parser.add_argument("--opening", nargs=3, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    os.environ["GENESIS_LIBRARY"] = str(flags.build.resolve() / "libgenesis.so")
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))
    import genesis
    if flags.opening:
        return print_opening(genesis, flags)
    files = flags.files
    if not files:
        from exported_models import write_models
        flags.models.mkdir(parents=True, exist_ok=True)
        files = write_models(flags.models, flags.wheels)
    print("| model | genesis, ms | onnxruntime, ms | ratio | opening, ms | onnxruntime | share | difference |\n|" + "---|" * 8)
    rows = [row(Case(genesis, path, flags.threads), flags) for path in files]
    print(f"geometric mean {mean([r[0] for r in rows]):.2f}x, opening {mean([r[1] for r in rows]):.2f}x of onnxruntime "
          f"{onnxruntime.__version__}, {flags.threads} thread(s), load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
