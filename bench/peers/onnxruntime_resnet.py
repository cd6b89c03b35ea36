#!/usr/bin/env python3
"""Times the network of bench/cpu/resnet.cpp in onnxruntime, as its peer: ResNet-50 with batch norms already part of the weights.

    python3 bench/peers/onnxruntime_resnet.py [THREADS [BATCH]]

Prints the best of some runs, in processor time with one thread and in wall time with more. If onnx or onnxruntime is missing,
prints a message and exits with 0.
"""
import sys
import time

try:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"{error.name} is missing: the comparison with onnxruntime is skipped")
    sys.exit(0)


class Network:
    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes, self.weights = [], []

    def weight(self, *shape, scale=1.0):
        name = f"w{len(self.weights)}"
        values = self.random.standard_normal(shape) * scale
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def conv(self, x, inputs, outputs, window, stride, relu=True):
        scale = (inputs * window * window) ** -0.5
        y = self.add("Conv", [x, self.weight(outputs, inputs, window, window, scale=scale), self.weight(outputs)],
                     kernel_shape=[window] * 2, strides=[stride] * 2, pads=[window // 2] * 4)
        return self.add("Relu", [y]) if relu else y


def resnet(batch):
    net = Network()
    x = net.add("MaxPool", [net.conv("x", 3, 64, 7, 2)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for layer, blocks in enumerate([3, 4, 6, 3]):
        width = 64 << layer
        for block in range(blocks):
            stride = 2 if block == 0 and layer > 0 else 1
            y = net.conv(net.conv(x, inputs, width, 1, 1), width, width, 3, stride)
            y = net.conv(y, width, 4 * width, 1, 1, relu=False)
            if stride != 1 or inputs != 4 * width:
                x = net.conv(x, inputs, 4 * width, 1, stride, relu=False)
            x = net.add("Relu", [net.add("Add", [y, x])])
            inputs = 4 * width
    x = net.add("Flatten", [net.add("GlobalAveragePool", [x])])
    y = net.add("Gemm", [x, net.weight(1000, inputs, scale=inputs ** -0.5), net.weight(1000)], transB=1)
    graph = helper.make_graph(net.nodes, "resnet50",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 224, 224])],
                              [helper.make_tensor_value_info(y, TensorProto.FLOAT, [batch, 1000])], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def main():
    threads, batch = (int(sys.argv[i]) if len(sys.argv) > i else 1 for i in (1, 2))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(resnet(batch), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).random((batch, 3, 224, 224), dtype=np.float32)
    clock = time.process_time if threads == 1 else time.perf_counter
    best = float("inf")
    for _ in range(12):
        start = clock()
        session.run(None, {"x": x})
        best = min(best, clock() - start)
    print(f"onnxruntime {onnxruntime.__version__}, ResNet-50, {threads} thread(s), batch {batch}: {best * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
