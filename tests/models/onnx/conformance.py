#!/usr/bin/env python3
"""Runs ONNX's own test suite (PyPI: onnx) with Genesis, and writes what does not pass as a table.

  conformance.py --program build/tests/test_models --folder /tmp/onnx-suite --table docs/onnx.md
  conformance.py --program build/tests/test_models --folder /tmp/onnx-models --models WHEELS

The first form makes folders of all tests (model.onnx, test_data_set_0/input_0.pb ...) in --folder and runs them. With
--models it makes tests of the .onnx files below a folder into which wheels were unpacked: onnxruntime computes what is expected,
at two sizes where sizes are open. Needs the packages onnx and numpy, and onnxruntime for --models.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data"


def proto_of(value, info):
    if hasattr(value, "SerializeToString"):
        return value
    kinds = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional,
             "map_type": numpy_helper.from_dict}
    kind = info.type.WhichOneof("value")
    return kinds[kind](value, info.name) if kind in kinds else numpy_helper.from_array(np.asarray(value), info.name)


def write_test(folder, model, data_sets, **limits):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    (folder / "data.json").write_text(json.dumps(limits))
    graph = onnx.load_from_string(model).graph if isinstance(model, bytes) else model.graph
    for i, (inputs, outputs) in enumerate(data_sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir(exist_ok=True)
        given = [x for x in graph.input if x.name not in {t.name for t in graph.initializer}]
        for kind, values, infos in (("input", inputs, given), ("output", outputs, graph.output)):
            for j, value in enumerate(values):
                (data / f"{kind}_{j}.pb").write_bytes(proto_of(value, infos[j]).SerializeToString())


def write_suite(folder):
    from onnx.backend.test.loader import load_model_tests
    from onnx.backend.test.runner import Runner
    for case in load_model_tests(kind="node"):
        write_test(folder / "node" / case.name, case.model, case.data_sets, rtol=case.rtol, atol=case.atol)
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        shutil.copytree(DATA / kind, folder / kind, dirs_exist_ok=True)
    for case in load_model_tests(kind="real"):  # the nets without weights that the package has
        path = DATA / "light" / pathlib.Path(case.url).name
        model = onnx.load(path)
        outputs = [onnx.load_tensor(str(path).replace(".onnx", f"_output_{i}.pb")) for i in range(len(model.graph.output))]
        inputs = [Runner.generate_dummy_data(x, seed=0, name=case.name, random=False)
                  for x in model.graph.input if x.name not in {t.name for t in model.graph.initializer}]
        write_test(folder / "light" / case.name, path.read_bytes(), [(inputs, outputs)], rtol=case.rtol, atol=case.atol)


# Sizes for open dimensions of models that PyPI wheels carry, and values of inputs: by the name of the file.
SIZES = {
    "ch_PP-OCRv4_det_infer.onnx": [{"x": (1, 3, 160, 224)}, {"x": (2, 3, 96, 96)}],
    "ch_PP-OCRv4_rec_infer.onnx": [{"x": (1, 3, 48, 160)}, {"x": (2, 3, 48, 96)}],
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": [{"x": (1, 3, 48, 192)}, {"x": (3, 3, 48, 96)}],
    "320n.onnx": [{"images": (1, 3, 320, 320)}, {"images": (2, 3, 160, 160)}],
    "nmp.onnx": [{"serving_default_input_2:0": (1, 43844, 1)}, {"serving_default_input_2:0": (2, 43844, 1)}],
    "model.onnx": [{"bytes": (1, 2048)}, {"bytes": (3, 2048)}],
}


def random_input(info, shape, rng):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if info.name == "sr":
        return np.array(16000, dtype)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 256, shape).astype(dtype)
    if len(shape) == 4:  # an image of bright and dark bars, which looks like text to detectors
        bars = np.sin(np.arange(shape[3]) * 1.1) * (np.arange(shape[2])[:, None] % 32 < 16)
        return (bars * 2 + rng.standard_normal(shape) * 0.2).astype(dtype)
    return rng.standard_normal(shape).astype(dtype) * 0.5


def write_models(folder, wheels):
    import onnxruntime
    for path in sorted(pathlib.Path(wheels).rglob("*.onnx")):
        model = path.read_bytes()
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        infos = {x.name: x for x in onnx.load_from_string(model).graph.input}
        for k, shapes in enumerate(SIZES.get(path.name, [{}, {}])):
            rng = np.random.default_rng(k)
            given = {}
            for x in session.get_inputs():
                usual = [s if isinstance(s, int) else (k + 1 if i < 2 and "state" in x.name or i == 0 else 576)
                         for i, s in enumerate(x.shape)]
                if x.name == "state":
                    usual = [2, k + 1, 128]
                given[x.name] = random_input(infos[x.name], shapes.get(x.name, usual), rng)
            try:
                outputs = session.run(None, given)
            except Exception as problem:
                print(f"{path.name}: onnxruntime: {problem}")
                continue
            largest = max(float(np.abs(y.astype(np.float64)).max()) for y in outputs if y.size)
            write_test(folder / path.stem / f"test_sizes_{k}", model, [(list(given.values()), outputs)], rtol=0,
                       atol=1e-4 * largest, fixes_shapes=True)


def run(program, folder, results, wanted):
    environment = dict(os.environ, GENESIS_ONNX_SUITE=str(folder), GENESIS_ONNX_RESULTS=str(results))
    if wanted:
        environment["GENESIS_ONNX_FILTER"] = wanted
    subprocess.run([program, "--gtest_filter=OnnxConformance.*"], env=environment, check=True, stdout=subprocess.DEVNULL)
    return [line.split("\t", 1) for line in results.read_text().splitlines()]


# Reasons in words, by what the message has.
REASONS = [
    (r"of string", "texts are no tensors here"),
    (r"not read: ai\.onnx\.ml::LabelEncoder|StringNormalizer|StringSplit|StringConcat|RegexFullMatch", "texts are no tensors here"),
    (r"not read: ImageDecoder", "decoding JPEG, PNG and other files is left to other libraries"),
    (r"not read: NonMaxSuppression|not read: Unique", "the size of the result depends on data"),
    (r"not read: Bernoulli|not read: RandomUniformLike|random numbers are not those", "random numbers are not those of ONNX's reference"),
    (r"the bits of", "no op reads the bits of reals"),
    (r"WRONG 'Y' .*", "f16: products are summed in f32, and differ by one unit in the last place from the reference, which rounds each step"),
    (r"WRONG 'y' at 101: 3\.06", "the result is nearer to zero than that of the reference, whose tolerance is 1e-7"),
    (r"not read: ([A-Za-z.:]+)", "the operator is not read yet"),
]


def reason_of(message):
    for pattern, words in REASONS:
        if re.search(pattern, message):
            return words
    return message[:200]


def table_of(results):
    kinds = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(list)
    for name, result in results:
        kind = name.split("/")[0]
        kinds[kind][result if result.startswith("PASS") else "other"] += 1
        if not result.startswith("PASS"):
            reasons[reason_of(result)].append(name.split("/")[1].removeprefix("test_"))
    lines = ["| tests | all | pass, one graph for all values | pass, a variant for each value of small inputs | do not pass |",
             "|---|---|---|---|---|"]
    total = collections.Counter()
    for kind, counts in sorted(kinds.items()):
        total.update(counts)
        lines.append(f"| {kind} | {counts.total()} | {counts['PASS']} | {counts['PASS by variants']} | {counts['other']} |")
    share = 100 * (total["PASS"] + total["PASS by variants"]) / total.total()
    lines.append(f"| together ({share:.1f}%) | {total.total()} | {total['PASS']} | {total['PASS by variants']} | {total['other']} |")
    lines += ["", "| does not pass | reason |", "|---|---|"]
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        lines.append(f"| {len(names)}: {', '.join(f'`{name}`' for name in sorted(names))} | {reason} |")
    return "\n".join(lines)


def put_table(path, table):
    text = path.read_text()
    begin, end = "<!-- conformance -->\n", "\n<!-- end -->"
    head, rest = text.split(begin)
    path.write_text(head + begin + table + end + rest.split(end)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="build/tests/test_models")
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="where tests and results are written")
    parser.add_argument("--models", help="a folder with unpacked wheels that contain .onnx files")
    parser.add_argument("--filter", help="only tests whose names have this text")
    parser.add_argument("--table", type=pathlib.Path, help="a Markdown file whose table is written anew")
    options = parser.parse_args()
    if options.models:
        write_models(options.folder, options.models)
    else:
        write_suite(options.folder)
    results = run(options.program, options.folder, options.folder / "results.txt", options.filter)
    for name, result in results:
        if options.models or not result.startswith("PASS"):
            print(f"{name}\t{result[:200]}")
    passed = sum(result.startswith("PASS") for _, result in results)
    print(f"{passed} of {len(results)} pass")
    if options.table:
        put_table(options.table, table_of(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
