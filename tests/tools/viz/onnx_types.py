"""Writes tests/tools/viz/onnx_types.inc: an ONNX model of many operators without types between its inputs and its outputs, and
the types that ONNX's own shape inference finds (pip install onnx)."""
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

NAMES = {TensorProto.FLOAT: "f32", TensorProto.INT64: "i64", TensorProto.INT32: "i32", TensorProto.BOOL: "bool", TensorProto.FLOAT16: "f16", TensorProto.UINT8: "u8"}
nodes, constants = [], []


def constant(name: str, values, dtype=numpy.int64) -> str:
    nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(numpy.array(values, dtype), name)))
    return name


def weight(name: str, *shape: int) -> str:
    constants.append(numpy_helper.from_array(numpy.zeros(shape, numpy.float32), name))
    return name


def node(op: str, inputs: list[str], outputs: str, **attributes) -> str:
    nodes.append(helper.make_node(op, inputs, outputs.split(), **attributes))
    return outputs.split()[0]


# Image ops: image is f32[batch,3,33,48].
c1 = node("Conv", ["image", weight("c1.weight", 8, 3, 3, 3)], "c1", strides=[2, 2], pads=[1, 1, 1, 1])
c2 = node("Conv", [c1, weight("c2.weight", 8, 1, 5, 5)], "c2", group=8, dilations=[2, 1], auto_pad="SAME_UPPER")
node("Conv", [c1, weight("c3.weight", 4, 8, 3, 2)], "c3", strides=[3, 2], dilations=[1, 2])
bn = node("BatchNormalization", [c2, *(weight(f"bn.{part}", 8) for part in ("scale", "bias", "mean", "var"))], "bn")
p1 = node("MaxPool", [bn], "p1", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
node("MaxPool", [bn], "p2", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1])
node("AveragePool", [bn], "p3", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER")
node("GlobalAveragePool", [p1], "gap")
node("ConvTranspose", [p1, weight("up.weight", 8, 2, 4, 4)], "up", strides=[2, 2], pads=[1, 1, 1, 1], group=2, output_padding=[1, 0])
node("Resize", [p1, "", constant("scales", [1, 1, 2, 1.5], numpy.float32)], "resized", mode="nearest")
node("Resize", [p1, "", "", constant("sizes", [1, 8, 20, 21])], "sized", mode="nearest")
node("Pad", [p1, constant("pads", [0, 0, 1, 2, 0, 0, 3, 4])], "padded")
node("DepthToSpace", [p1], "depth", blocksize=2)
node("SpaceToDepth", ["padded"], "space", blocksize=1)
node("Flatten", [p1], "flat", axis=2)
node("Clip", [p1, constant("low", 0, numpy.float32), constant("high", 6, numpy.float32)], "clipped")
node("HardSigmoid", [p1], "hard")
node("InstanceNormalization", [p1, "bn.scale", "bn.bias"], "instance")

# Sequence ops: tokens is f32[batch,seq,64].
q = node("MatMul", ["tokens", weight("q.weight", 64, 64)], "q")
shape = node("Shape", [q], "shape")
batch = node("Gather", [shape, constant("zero", 0)], "batch_size")
seq = node("Gather", [shape, constant("one", 1)], "seq_size")
parts = [node("Unsqueeze", [part, constant(f"axis{i}", [0])], f"part{i}") for i, part in enumerate((batch, seq))]
target = node("Concat", [*parts, constant("heads", [4, 16])], "target", axis=0)
heads = node("Reshape", [q, target], "split_heads")
turned = node("Transpose", [heads], "turned", perm=[0, 2, 1, 3])
keys = node("Transpose", [heads], "keys", perm=[0, 2, 3, 1])
scores = node("Div", [node("MatMul", [turned, keys], "products"), constant("root", 4.0, numpy.float32)], "scores")
node("Softmax", [scores], "attention", axis=-1)
node("Reshape", [turned, constant("folded", [0, 0, -1])], "copied")
node("Reshape", [weight("w", 6, 4), constant("minus", [2, -1])], "minus_one")
node("Slice", ["tokens", constant("starts", [1, -10]), constant("ends", [2**63 - 1, -2]), constant("axes", [0, 2])], "sliced")
node("Slice", [weight("table", 10, 20), constant("starts2", [-1, 0]), constant("ends2", [-(2**63), 20]), constant("axes2", [0, 1]), constant("steps2", [-2, 3])], "stepped")
node("Split", ["tokens", constant("sizes3", [16, 48])], "left right", axis=2)
node("Split", ["table"], "s0 s1 s2 s3", axis=0, num_outputs=4)
node("Squeeze", ["gap", constant("axes4", [2, 3])], "squeezed")
node("Unsqueeze", ["tokens", constant("axes5", [0, -1])], "unsqueezed")
node("Expand", ["squeezed", constant("wide", [5, 1, 8])], "expanded")
node("Tile", ["table", constant("times", [2, 3])], "tiled")
node("Gather", ["table", "ids"], "embedded")
node("GatherElements", ["table", constant("places", [[1, 2], [3, 4]])], "elements", axis=1)
node("GatherND", ["table", constant("points", [[1, 2], [3, 4], [5, 6]])], "nd")
node("Gemm", ["squeezed", weight("fc.weight", 10, 8), weight("fc.bias", 10)], "gemm", transB=1)
node("MatMul", [weight("v", 64), "q.weight"], "row")
node("ReduceMean", ["tokens", constant("last", [-1])], "mean")
node("ReduceSum", ["tokens", constant("both", [0, 2])], "sum", keepdims=0)
node("ReduceMax", ["table"], "all", keepdims=0)
node("ArgMax", ["tokens"], "best", axis=1, keepdims=0)
node("TopK", ["table", constant("k", [3])], "top places_of_top", axis=1)
node("Cast", ["ids"], "cast", to=TensorProto.FLOAT16)
node("Equal", ["ids", "ids"], "equal")
node("Not", ["equal"], "different")
node("Where", ["equal", "ids", "one"], "where")
node("Pow", ["tokens", constant("two", 2.0, numpy.float32)], "squares")
node("Add", ["squeezed", "bn.bias"], "broadcast")
node("Add", [weight("column", 4, 1), weight("line", 1, 7)], "grid")
node("ConstantOfShape", [constant("filled", [2, 3])], "zeros")
node("ConstantOfShape", ["target"], "ones", value=numpy_helper.from_array(numpy.ones(1, numpy.int32), "value"))
node("Range", ["zero", constant("ten", 10), constant("three", 3)], "range")
node("Size", ["table"], "size")
node("NonZero", ["table"], "nonzero")
node("OneHot", ["ids", constant("classes", 5), constant("off_on", [0, 1], numpy.float32)], "hot")
node("LayerNormalization", ["tokens", weight("ln.scale", 64)], "normed", axis=-1)
node("Erf", ["normed"], "erf")
node("LSTM", ["tokens", weight("lstm.w", 2, 128, 64), weight("lstm.r", 2, 128, 32)], "all_steps last_step last_cell", direction="bidirectional", hidden_size=32)
node("GRU", ["tokens", weight("gru.w", 1, 96, 64), weight("gru.r", 1, 96, 32)], "gru_steps", hidden_size=32)
node("QuantizeLinear", ["table", constant("scale", 0.1, numpy.float32), constant("point", 3, numpy.uint8)], "quantized")
node("DequantizeLinear", ["quantized", "scale", "point"], "dequantized")
node("Einsum", ["tokens", "tokens"], "einsum", equation="bij,bkj->bik")
node("CumSum", ["table", "zero"], "cumulated")
node("Concat", ["tokens", "normed"], "joined", axis=2)
node("Max", ["column", "line", "grid"], "largest")

graph = helper.make_graph(
    nodes, "operators",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 33, 48]), helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["batch", "seq", 64]),
     helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 7])],
    [helper.make_tensor_value_info("erf", TensorProto.FLOAT, ["batch", "seq", 64])], constants)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.checker.check_model(model)
inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def text(value) -> str:
    kind = value.type.tensor_type
    dims = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param if dim.dim_param and not dim.dim_param.startswith("unk__") else "?" for dim in kind.shape.dim]
    return f"{NAMES[kind.elem_type]}[{','.join(dims)}]"


def lines(data: bytes) -> list[str]:
    return ["    " + ", ".join(f"0x{byte:02x}" for byte in data[i : i + 24]) + "," for i in range(0, len(data), 24)]


if __name__ == "__main__":
    # Weights are zeros, which would only make the file large, so only their types are written.
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights")
    constant_names = {output for one in nodes if one.op_type == "Constant" for output in one.output}
    known = sorted({(value.name, text(value)) for value in [*inferred.graph.value_info, *inferred.graph.output] if value.name not in constant_names})
    out = ["// Made by tests/tools/viz/onnx_types.py.", "constexpr unsigned char kOperatorsModel[] = {", *lines(model.SerializeToString()), "};",
           "constexpr std::pair<const char*, const char*> kOperatorTypes[] = {", *(f'    {{"{name}", "{kind}"}},' for name, kind in known), "};"]
    pathlib.Path(__file__).with_suffix(".inc").write_text("\n".join(out) + "\n")
