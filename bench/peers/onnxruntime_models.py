#!/usr/bin/env python3
"""Times models in onnxruntime and in Genesis on one thread of a CPU, in processor time, so that a busy machine can be used.

    python3 bench/peers/onnxruntime_models.py TOOLS_FOLDER [FILE.onnx ...] [--runs 10] [--rounds 3]

Without files the models are torchvision's ResNet-50, MobileNetV3 and ViT-B/16 and a BERT of transformers (768 wide, 12 layers, 128
tokens), with random weights, exported to ONNX. Both sides take turns, and the best round counts. Needs onnxruntime, and without files torch, torchvision and
transformers; if onnxruntime is missing, prints a message and exits with 0.
"""
import argparse
import json
import math
import os
import pathlib
import resource
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


def exported(folder):
    import torch
    import torchvision
    import transformers
    picture = torch.rand(1, 3, 224, 224)
    cases = [(name, torchvision.models.get_model(name, weights=None), (picture,))
             for name in ("resnet50", "mobilenet_v3_large", "vit_b_16")]
    bert = transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False)
    bert.config.return_dict = False
    cases.append(("bert", bert, (torch.randint(0, 30000, (1, 128)),)))
    for name, model, inputs in cases:
        path = folder / f"{name}.onnx"
        torch.onnx.export(model.eval(), inputs, str(path), dynamo=True, external_data=False)
        yield path


def random_inputs(session):
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    return {i.name: np.random.default_rng(0).random([d if isinstance(d, int) else 1 for d in i.shape]).astype(types[i.type])
            for i in session.get_inputs()}


def of_onnxruntime(path, runs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = random_inputs(session)
    session.run(None, inputs)
    start = time.process_time()
    for _ in range(runs):
        session.run(None, inputs)
    return (time.process_time() - start) / runs


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_genesis(tools, path, runs):
    """Returns the processor seconds of a run: those of a process with some more runs, less those of one with one."""
    def seconds(count):
        start = children_seconds()
        subprocess.run([tools / "genesis-run", "bench", path, "--threads", "1", "--runs", str(count), "--json"], check=True,
                       capture_output=True)
        return children_seconds() - start
    one = seconds(1)
    return (seconds(1 + runs) - one) / runs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    ratios = []
    print("| model | genesis | onnxruntime | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for path in flags.files or exported(folder):
            made = folder / f"{path.stem}.genesis"
            subprocess.run([flags.tools / "genesis-build", path, "-o", made], check=True, capture_output=True)
            ours, theirs = [], []
            for _ in range(flags.rounds):
                ours.append(of_genesis(flags.tools, made, flags.runs))
                theirs.append(of_onnxruntime(path, flags.runs))
            ours, theirs = min(ours), min(theirs)
            ratios.append(theirs / ours)
            print(f"| {path.stem} | {1e3 * ours:.1f} ms | {1e3 * theirs:.1f} ms | {ratios[-1]:.2f}x |", flush=True)
    print(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}x", json.dumps(ratios))


if __name__ == "__main__":
    main()
