#!/usr/bin/env python3
"""Compares exported models with onnxruntime, for export_test.cpp.

  export_check.py FOLDER

Each folder below FOLDER has model.onnx, and names.txt with lines "in NAME FILE.npy" for inputs and "out NAME FILE.npy" for the results of Genesis. Prints one line for each that
differs; exits with 77 if onnx or onnxruntime are not installed.
"""
import pathlib
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"{missing.name} is not installed")
    sys.exit(77)

TOLERANCE = 1e-5  # relative to the largest number of an output


def problems_of(folder):
    path = str(folder / "model.onnx")
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [line.split("\t") for line in (folder / "names.txt").read_text().splitlines()]
    load = {kind: {name: np.load(folder / file) for k, name, file in names if k == kind} for kind in ("in", "out")}
    wanted = {x.name for x in session.get_inputs()}
    results = session.run(None, {name: x for name, x in load["in"].items() if name in wanted})
    for info, result in zip(session.get_outputs(), results):
        if info.name not in load["out"]:
            continue
        expected = load["out"][info.name]
        if expected.shape != result.shape or expected.dtype != result.dtype:
            yield f"{info.name} is {result.dtype}{result.shape}, expected {expected.dtype}{expected.shape}"
        elif expected.size:
            difference = np.abs(expected.astype(np.float64) - result.astype(np.float64)).max()
            if not difference <= TOLERANCE * max(np.abs(expected.astype(np.float64)).max(), 1e-6):
                yield f"{info.name} differs by {difference:g}"


failed = False
for model in sorted(pathlib.Path(sys.argv[1]).glob("*/model.onnx")):
    try:
        problems = list(problems_of(model.parent))
    except Exception as problem:
        problems = [str(problem).replace("\n", " ")]
    for text in problems:
        print(f"{model.parent.name}: {text}")
        failed = True
sys.exit(1 if failed else 0)
