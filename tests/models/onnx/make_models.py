#!/usr/bin/env python3
"""Makes the small models and data of tests/models/onnx/cases; onnxruntime computes what is expected. Needs onnx and onnxruntime."""
import pathlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

CASES = pathlib.Path(__file__).parent / "cases"
RNG = np.random.default_rng(1)
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def weight(name, *shape):
    return numpy_helper.from_array((RNG.standard_normal(shape) * 0.4).astype(np.float32), name)


def ints(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def info(name, shape, kind=F):
    return helper.make_tensor_value_info(name, kind, shape)


def save(name, nodes, inputs, outputs, tensors, data, functions=(), external=False):
    opsets = [helper.make_opsetid("", 18)] + ([helper.make_opsetid("own", 1)] if functions else [])
    graph = helper.make_graph(nodes, name, inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    folder = CASES / name
    folder.mkdir(parents=True, exist_ok=True)
    for i, given in enumerate(data):
        results = session.run(None, given)
        place = folder / f"test_data_set_{i}"
        place.mkdir(exist_ok=True)
        for kind, values, infos in (("input", list(given.values()), inputs), ("output", results, outputs)):
            for k, value in enumerate(values):
                (place / f"{kind}_{k}.pb").write_bytes(numpy_helper.from_array(np.asarray(value), infos[k].name).SerializeToString())
    (folder / "data.json").write_text('{"rtol": 1e-4, "atol": 1e-5}')
    if external:
        onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    else:
        onnx.save(model, folder / "model.onnx")


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def net():
    """Convolutions with batch normalization and a skip connection; the batch is symbolic."""
    N = helper.make_node
    nodes = [
        N("Conv", ["x", "c1.w", "c1.b"], ["a"], name="/c1/Conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        N("BatchNormalization", ["a", "bn.w", "bn.b", "bn.mean", "bn.var"], ["b"], name="/bn/BatchNormalization"),
        N("Relu", ["b"], ["c"]),
        N("Conv", ["c", "c2.w"], ["d"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0]),
        N("MaxPool", ["c"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        N("Add", ["d", "e"], ["f"]),
        N("GlobalAveragePool", ["f"], ["g"]),
        N("Flatten", ["g"], ["h"]),
        N("Gemm", ["h", "fc.w", "fc.b"], ["i"], transB=1),
        N("Softmax", ["i"], ["y"], axis=-1),
    ]
    variance = numpy_helper.from_array(RNG.random(4).astype(np.float32) + 0.5, "bn.var")
    tensors = [weight("c1.w", 4, 2, 3, 3), weight("c1.b", 4), weight("bn.w", 4), weight("bn.b", 4), weight("bn.mean", 4), variance,
               weight("c2.w", 4, 4, 3, 3), weight("fc.w", 3, 4), weight("fc.b", 3)]
    save("net", nodes, [info("x", ["batch", 2, 8, 8])], [info("y", ["batch", 3])], tensors,
         [{"x": real(n, 2, 8, 8)} for n in (1, 3)])


def attention():
    """Heads are split with sizes that nodes compute from Shape; batch and length are symbolic."""
    N = helper.make_node
    nodes = [
        N("LayerNormalization", ["x", "ln.w", "ln.b"], ["n"], axis=-1),
        N("MatMul", ["n", "qkv.w"], ["qkv"]),
        N("Split", ["qkv"], ["q", "k", "v"], axis=-1, num_outputs=3),
        N("Shape", ["x"], ["shape"]),
        N("Gather", ["shape", "zero"], ["batch"], axis=0),
        N("Gather", ["shape", "one"], ["time"], axis=0),
        N("Unsqueeze", ["batch", "axis0"], ["batch1"]),
        N("Unsqueeze", ["time", "axis0"], ["time1"]),
        N("Concat", ["batch1", "time1", "heads", "rest"], ["split"], axis=0),
        N("Concat", ["batch1", "time1", "rest"], ["joined"], axis=0),
    ]
    for part in "qkv":
        nodes += [N("Reshape", [part, "split"], [part + "1"]), N("Transpose", [part + "1"], [part + "2"], perm=[0, 2, 1, 3])]
    nodes += [
        N("Transpose", ["k2"], ["k3"], perm=[0, 1, 3, 2]),
        N("MatMul", ["q2", "k3"], ["s"]),
        N("Div", ["s", "two"], ["s1"]),
        N("Range", ["zero", "time", "one"], ["places"]),
        N("Unsqueeze", ["places", "axis1"], ["rows"]),
        N("LessOrEqual", ["places", "rows"], ["visible"]),
        N("Where", ["visible", "s1", "low"], ["s2"]),
        N("Softmax", ["s2"], ["p"], axis=-1),
        N("MatMul", ["p", "v2"], ["o"]),
        N("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        N("Reshape", ["o1", "joined"], ["o2"]),
        N("Gelu", ["o2"], ["g"], domain="own"),
        N("Add", ["x", "g"], ["y"]),
    ]
    body = [N("Constant", [], ["c"], value_float=1.702), N("Mul", ["x", "c"], ["a"]), N("Sigmoid", ["a"], ["b"]), N("Mul", ["x", "b"], ["y"])]
    gelu = helper.make_function("own", "Gelu", ["x"], ["y"], body, [helper.make_opsetid("", 18)])
    tensors = [weight("ln.w", 8), weight("ln.b", 8), weight("qkv.w", 8, 24), ints("zero", 0), ints("one", 1), ints("axis0", [0]),
               ints("axis1", [1]), ints("heads", [2]), ints("rest", [-1]), numpy_helper.from_array(np.float32(2), "two"),
               numpy_helper.from_array(np.float32(-1e9), "low")]
    save("attention", nodes, [info("x", ["batch", "time", 8])], [info("y", ["batch", "time", 8])], tensors,
         [{"x": real(n, t, 8)} for n, t in ((1, 5), (2, 3))], functions=[gelu], external=True)


def loops():
    """A loop of three steps, a branch that depends on data, and a recurrent layer."""
    N = helper.make_node
    step = helper.make_graph([N("Mul", ["c", "half"], ["c1"]), N("Add", ["c1", "x"], ["c2"]), N("Identity", ["go"], ["go1"])], "step",
                             [info("i", [], I), info("go", [], B), info("c", None)],
                             [info("go1", [], B), info("c2", None), info("c1", None)])
    yes = helper.make_graph([N("Neg", ["last"], ["r"])], "yes", [], [info("r", None)])
    no = helper.make_graph([N("Abs", ["last"], ["r"])], "no", [], [info("r", None)])
    nodes = [
        N("Loop", ["three", "", "x"], ["last", "all"], body=step),
        N("ReduceSum", ["x"], ["total"], keepdims=0),
        N("Greater", ["total", "zero"], ["positive"]),
        N("If", ["positive"], ["r"], then_branch=yes, else_branch=no),
        N("LSTM", ["all", "w", "r0"], ["", "h"], hidden_size=3, direction="bidirectional"),
    ]
    tensors = [ints("three", 3), numpy_helper.from_array(np.float32(0.5), "half"), numpy_helper.from_array(np.float32(0), "zero"),
               weight("w", 2, 12, 4), weight("r0", 2, 12, 3)]
    save("loops", nodes, [info("x", ["batch", 4])], [info("r", ["batch", 4]), info("h", [2, "batch", 3])], tensors,
         [{"x": real(2, 4) + sign} for sign in (2, -2)])


def collecting():
    """A loop that collects and that data end, after at most twelve steps: a search for the next row of a table, as decoders have it."""
    N = helper.make_node
    step = helper.make_graph(
        [N("Gather", ["table", "at"], ["row"], axis=0), N("Add", ["row", "x"], ["scores"]), N("ArgMax", ["scores"], ["next"], axis=-1, keepdims=0),
         N("Equal", ["next", "stop"], ["stops"]), N("Not", ["stops"], ["go1"]), N("Softmax", ["scores"], ["shares"], axis=-1)],
        "step", [info("i", [], I), info("go", [], B), info("at", [], I)],
        [info("go1", [], B), info("next", [], I), info("shares", [6]), info("at", [], I)])
    nodes = [
        N("Loop", ["twelve", "", "start"], ["last", "all", "path"], body=step),
        N("Mul", ["all", "half"], ["y"]),
    ]
    tensors = [ints("twelve", 12), ints("start", 0), ints("stop", 5), weight("table", 6, 6), numpy_helper.from_array(np.float32(0.5), "half")]
    save("collecting", nodes, [info("x", [6])], [info("last", [], I), info("y", ["steps", 6]), info("path", ["steps"], I)], tensors,
         [{"x": np.array(x, np.float32)} for x in ([0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 9], [0, 2, -1, 1, 0, -9])])


def constants():
    """Weights in Constant nodes, as PaddlePaddle writes them; arithmetic of reals gives the scales of a resize."""
    N = helper.make_node
    variance = numpy_helper.from_array(RNG.random(4).astype(np.float32) + 0.5, "bn.var")
    weights = [weight("c.w", 4, 2, 3, 3), weight("c.b", 4), weight("bn.w", 4), weight("bn.b", 4), weight("bn.mean", 4), variance, weight("fc.w", 4, 3),
               weight("fc.b", 3), numpy_helper.from_array(np.array([1, 1, 4, 4], np.float32), "four"),
               numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "two")]
    nodes = [N("Constant", [], [w.name], value=w) for w in weights] + [
        N("Constant", [], ["three"], value_float=3.0),
        N("Constant", [], ["row"], value=ints("row", [1, 3])),
        N("Conv", ["x", "c.w", "c.b"], ["a"], pads=[1, 1, 1, 1]),
        N("BatchNormalization", ["a", "bn.w", "bn.b", "bn.mean", "bn.var"], ["b"]),
        N("Div", ["four", "two"], ["scales"]),
        N("Resize", ["b", "", "scales"], ["c"], mode="nearest"),
        N("Mul", ["c", "three"], ["d"]),
        N("Relu", ["d"], ["e"]),
        N("GlobalAveragePool", ["e"], ["f"]),
        N("Flatten", ["f"], ["g"]),
        N("MatMul", ["g", "fc.w"], ["h"]),
        N("Reshape", ["fc.b", "row"], ["fc.row"]),
        N("Add", ["h", "fc.row"], ["y"]),
    ]
    save("constants", nodes, [info("x", ["batch", 2, 6, 5])], [info("y", ["batch", 3])], [], [{"x": real(n, 2, 6, 5)} for n in (1, 3)])


if __name__ == "__main__":
    net()
    attention()
    loops()
    collecting()
    constants()
