"""Writes tests/tools/viz/onnx_fixture.inc: a small ONNX model, made by ONNX's own library (pip install onnx)."""
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

nodes = [
    helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["h"], name="/fc/Gemm", alpha=0.5, transB=1),
    helper.make_node("Twist", ["h"], ["t"], name="twist", domain="com.example", axes=[0, -1], mode="fast", scales=[1.5, -2.0]),
    helper.make_node("Add", ["t", "h"], ["y"]),
]
graph = helper.make_graph(
    nodes,
    "small",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["batch", 2])],
    [numpy_helper.from_array(numpy.arange(6, dtype=numpy.float32).reshape(2, 3), "fc.weight"), numpy_helper.from_array(numpy.zeros(2, numpy.float32), "fc.bias")],
)
data = helper.make_model(graph, producer_name="fixture", opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]).SerializeToString()
lines = ["// Made by tests/tools/viz/onnx_fixture.py.", "constexpr unsigned char kOnnxFixture[] = {"]
lines += ["    " + ", ".join(f"0x{b:02x}" for b in data[i : i + 16]) + "," for i in range(0, len(data), 16)]
pathlib.Path(__file__).with_suffix(".inc").write_text("\n".join(lines + ["};"]) + "\n")
