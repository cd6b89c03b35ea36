"""Writes tests/tools/viz/onnx_bodies.inc: an ONNX model with an If and a Loop, made by ONNX's own library (pip install onnx)."""
import pathlib

import onnx
from onnx import TensorProto, helper

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
value = helper.make_tensor_value_info


def untyped(name: str):
    return onnx.ValueInfoProto(name=name)


# Both branches give a value of the same name, as exporters write them.
then_branch = helper.make_graph([helper.make_node("Add", ["h", "h"], ["t"], name="/net/choice/Add")], "then", [], [untyped("t")])
else_branch = helper.make_graph(
    [helper.make_node("Neg", ["h"], ["n"], name="/net/deep/Neg"), helper.make_node("Mul", ["n", "y"], ["t"], name="/net/deep/Mul")], "else", [], [untyped("t")])
body = helper.make_graph(
    [helper.make_node("Add", ["carried", "carried"], ["sum"], name="add"), helper.make_node("Identity", ["go"], ["again"], name="on")], "body",
    [value("turn", INT, []), value("go", BOOL, []), value("carried", FLOAT, ["batch", None])], [value("again", BOOL, []), untyped("sum"), untyped("sum")])
nodes = [
    helper.make_node("Relu", ["x"], ["h"], name="/net/act/Relu"),
    helper.make_node("If", ["flag"], ["chosen"], name="/net/choice", then_branch=then_branch, else_branch=else_branch),
    helper.make_node("Loop", ["count", "flag", "chosen"], ["last", "sums"], name="turns", body=body),
]
graph = helper.make_graph(
    nodes, "bodies", [value("x", FLOAT, ["batch", 4]), value("y", FLOAT, ["batch", "n"]), value("flag", BOOL, []), value("count", INT, [])],
    [value("last", FLOAT, None), value("sums", FLOAT, None)])
data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()
lines = ["    " + ", ".join(f"0x{byte:02x}" for byte in data[i : i + 24]) + "," for i in range(0, len(data), 24)]
out = ["// Made by tests/tools/viz/onnx_bodies.py.", "constexpr unsigned char kBodiesModel[] = {", *lines, "};"]
pathlib.Path(__file__).with_suffix(".inc").write_text("\n".join(out) + "\n")
