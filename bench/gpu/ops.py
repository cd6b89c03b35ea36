#!/usr/bin/env python3
"""Compares single ops on one GPU with PyTorch and with the bandwidth of a copy, in one run.

    python3 bench/gpu/ops.py BUILD_DIR [--json FILE] [--only WORD[,WORD...]] [--sizes 16M,64M] [--quick]

One table defines each case for both sides: the line of the graph for Genesis (a model in text form, timed by
bench_time_entries on replayed CUDA Graphs) and an expression for PyTorch (eager, timed by CUDA events over many
calls; if eager is bound by launches, a captured graph of the same calls is timed as well). `moved` counts the bytes
that must move: inputs once, results once.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SIZES = [64 << 10, 1 << 20, 16 << 20, 64 << 20]
ROW = 1024  # elements per row in cases that have rows


class Case:
    """`inputs`: name -> (dtype, shape); `line`: the node; `torch`: a function of the inputs by name."""

    def __init__(self, name, group, inputs, line, run, outputs=(), flops=0, moved=None):
        self.name, self.group, self.inputs, self.line, self.run = name, group, inputs, line, run
        self.outputs, self.flops, self.moved = outputs, flops, moved

    def text(self):
        inputs = ", ".join(f"{n}: {d}[{','.join(map(str, s))}]" for n, (d, s) in self.inputs.items())
        returns = "".join(f"  return y{i} = {value}\n" for i, value in enumerate(self.outputs or ["%y"]))
        return f"entry {self.name}({inputs}) {{\n{self.line}{returns}}}\n"


def lines(*texts):
    return "".join(f"  {text}\n" for text in texts)


def size_name(n):
    return f"{n >> 20}M" if n >= 1 << 20 else f"{n >> 10}K"


def grad(f, *wrt):
    """Returns the backward pass of f alone: the forward pass is run once and its graph is kept."""
    cache = {}

    def run(**t):
        if not cache:
            leaves = {k: t[k].detach().requires_grad_() for k in wrt}
            cache["y"] = f(**{**t, **leaves})
            cache["leaves"] = list(leaves.values())
        dy = t["dy"] if "dy" in t else torch.ones_like(cache["y"])
        return torch.autograd.grad(cache["y"], cache["leaves"], dy, retain_graph=True)

    return run


def pointwise_cases(dtype, n):
    width = 2 if dtype == "bf16" else 4
    tag, rows = f"{dtype}_{size_name(n)}", n // ROW
    flat, table, vector = (dtype, (n,)), (dtype, (rows, ROW)), (dtype, (ROW,))

    def case(name, *rest, moved):
        return Case(f"{name}_{tag}", f"{dtype} {size_name(n)}", *rest, moved=moved * width)

    yield case("add", {"a": flat, "b": flat}, lines("%y = add(a, b)"), lambda a, b: a + b, moved=3 * n)
    yield case("gelu", {"x": flat}, lines("%y = gelu(x)"), lambda x: F.gelu(x), moved=2 * n)
    yield case("softmax", {"x": table}, lines("%y = softmax(x)"), lambda x: F.softmax(x, -1), moved=2 * n)
    yield case("softmax_grad", {"s": table, "dy": table}, lines("%y = softmax_grad(s, dy)"),
               lambda s, dy: torch.ops.aten._softmax_backward_data(dy, s, -1, s.dtype), moved=3 * n)
    yield case("layer_norm", {"x": table, "w": vector, "b": vector},
               lines("%y = layer_norm(x, w, b) {has_bias=true, has_weight=true}"),
               lambda x, w, b: F.layer_norm(x, (ROW,), w, b), moved=2 * n)
    yield Case(f"layer_norm_grad_{tag}", f"{dtype} {size_name(n)}", {"x": table, "w": vector, "dy": table},
               lines("%y = layer_norm_grad(x, dy, w) {has_weight=true, want_bias=true, want_weight=true}"),
               grad(lambda x, w, dy: F.layer_norm(x, (ROW,), w, torch.zeros_like(w).requires_grad_()), "x", "w"),
               outputs=["%y", "%y:1", "%y:2"], moved=3 * n * width)
    yield case("rms_norm", {"x": table, "w": vector}, lines("%y = rms_norm(x, w) {has_weight=true}"),
               lambda x, w: F.rms_norm(x, (ROW,), w, 1e-6), moved=2 * n)
    yield Case(f"rms_norm_grad_{tag}", f"{dtype} {size_name(n)}", {"x": table, "w": vector, "dy": table},
               lines("%y = rms_norm_grad(x, dy, w) {has_weight=true, want_weight=true}"),
               grad(lambda x, w, dy: F.rms_norm(x, (ROW,), w, 1e-6), "x", "w"), outputs=["%y", "%y:1"],
               moved=3 * n * width)
    yield case("sum_rows", {"x": table}, lines("%y = sum(x) {axes=(1)}"), lambda x: x.sum(1), moved=n)
    yield case("sum_columns", {"x": table}, lines("%y = sum(x) {axes=(0)}"), lambda x: x.sum(0), moved=n)
    yield Case(f"cross_entropy_{tag}", f"{dtype} {size_name(n)}", {"x": table, "t": ("i64", (rows,))},
               lines("%y = cross_entropy(x, t)"), lambda x, t: F.cross_entropy(x, t), moved=n * width)
    yield Case(f"cross_entropy_both_{tag}", f"{dtype} {size_name(n)}", {"x": table, "t": ("i64", (rows,))},
               lines("%one = full() {dtype=f32, shape=[], value=1}", "%l = cross_entropy(x, t) {with_lse=true}",
                     "%y = cross_entropy_grad(x, t, %l:1, %one)"),
               lambda x, t: torch.autograd.grad(F.cross_entropy(leaf(x), t), leaf(x)), moved=3 * n * width)


_leaves = {}


def leaf(x):
    if id(x) not in _leaves:
        _leaves[id(x)] = x.detach().requires_grad_()
    return _leaves[id(x)]


QWEN_SHAPES = [(8192, 1152, 896), (8192, 896, 896), (8192, 9728, 896), (8192, 4864, 896), (8192, 896, 4864),
               (8192, 151936, 896), (2048, 896, 896), (2048, 4864, 896), (1, 896, 896), (1, 4864, 896),
               (1, 896, 4864), (1, 151936, 896)]


def matmul_cases():
    shapes = [(m, m, m) for m in (512, 1024, 2048, 4096, 8192)] + QWEN_SHAPES
    for dtype in ("bf16", "f32"):
        for m, n, k in shapes:
            width = 2 if dtype == "bf16" else 4
            yield Case(f"linear_{dtype}_{m}x{n}x{k}", "matmul", {"x": (dtype, (m, k)), "w": (dtype, (n, k))},
                       lines("%y = linear(x, w)"), lambda x, w: F.linear(x, w), flops=2 * m * n * k,
                       moved=(m * k + n * k + m * n) * width)


def attention_cases():
    for size in (64, 128):
        for seq in (2048, 4096, 8192):
            batch, heads = 16384 // seq, 2048 // size
            shape = ("bf16", (batch, seq, heads, size))
            flops = 4 * batch * heads * seq * seq * size // 2  # causal: half of the products
            bthd = {"q": shape, "k": shape, "v": shape}

            def forward(q, k, v):
                q, k, v = (x.transpose(1, 2) for x in (q, k, v))
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)

            def both(q, k, v, dy):
                leaves = [leaf(x) for x in (q, k, v)]
                return torch.autograd.grad(forward(*leaves), leaves, dy.transpose(1, 2))

            yield Case(f"attention_{size}_{seq}", "attention", bthd, lines("%y = attention(q, k, v) {causal=true}"),
                       forward, flops=flops)
            yield Case(f"attention_both_{size}_{seq}", "attention", {**bthd, "dy": shape},
                       lines("%a = attention(q, k, v) {causal=true, with_lse=true}",
                             "%y = attention_grad(q, k, v, %a, %a:1, dy) {causal=true}"),
                       both, outputs=["%y", "%y:1", "%y:2"], flops=flops * 7 // 2)


# name: query heads, key heads, features of q and k, features of v
OTHER_HEADS = {"80": (32, 32, 80, 80), "96": (32, 32, 96, 96), "192x128": (16, 16, 192, 128), "256": (16, 4, 256, 256),
               "512": (16, 4, 512, 512)}


def fastest_attention(q, k, v):
    """PyTorch's attention by cuDNN, its fastest for heads of up to 256, or by what it has for longer ones."""
    backends = [SDPBackend.CUDNN_ATTENTION] if q.shape[-1] <= 256 else [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if q.shape[-1] > 256:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    with sdpa_kernel(backends):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def other_heads_cases(batch=4, seq=4096):
    for name, (heads, key_heads, size, v_size) in OTHER_HEADS.items():
        q, y = (("bf16", (batch, seq, heads, n)) for n in (size, v_size))
        k, v = (("bf16", (batch, seq, key_heads, n)) for n in (size, v_size))
        pairs = batch * heads * seq * seq  # two operations for each feature, and causal: half of the products
        yield Case(f"attention_heads_{name}", "attention", {"q": q, "k": k, "v": v},
                   lines("%y = attention(q, k, v) {causal=true}"), fastest_attention,
                   flops=pairs * (size + v_size))
        backward = grad(lambda q, k, v, **_: fastest_attention(q, k, v).transpose(1, 2), "q", "k", "v")
        yield Case(f"attention_grad_heads_{name}", "attention",
                   {"q": q, "k": k, "v": v, "o": y, "lse": ("f32", (batch, heads, seq)), "dy": y},
                   lines("%y = attention_grad(q, k, v, o, lse, dy) {causal=true}"), backward,
                   outputs=["%y", "%y:1", "%y:2"], flops=pairs * (3 * size + 2 * v_size))


# Ten convolutions of ResNets, and depthwise ones of ConvNeXt: batch, channels in, out, size of the picture, window, stride, groups
CONVOLUTIONS = [(256, 64, 64, 56, 3, 1, 1), (256, 128, 128, 28, 3, 1, 1), (256, 256, 256, 14, 3, 1, 1),
                (256, 512, 512, 7, 3, 1, 1), (256, 128, 128, 56, 3, 2, 1), (256, 64, 256, 56, 1, 1, 1),
                (256, 256, 64, 56, 1, 1, 1), (256, 256, 512, 56, 1, 2, 1), (256, 1024, 256, 14, 1, 1, 1),
                (256, 2048, 512, 7, 1, 1, 1), (128, 96, 96, 56, 7, 1, 96), (128, 384, 384, 14, 7, 1, 384)]


def first(x):
    """Returns the channels-last tensor with PyTorch's order of axes."""
    return x.permute(0, 3, 1, 2)


def torch_convolution(stride, window, groups):
    pad = [window // 2] * 2
    rest = ([stride] * 2, pad, [1, 1])

    def forward(x, w):
        return F.conv2d(first(x), first(w), None, *rest, groups)

    def backward(x, w, dy, which):
        mask = [which == "dx", which == "dw", False]
        return torch.ops.aten.convolution_backward(first(dy), first(x), first(w), None, *rest, False, [0, 0], groups, mask)

    return {"y": forward, "dx": lambda dy, w, x: backward(x, w, dy, "dx"), "dw": lambda x, dy, w: backward(x, w, dy, "dw")}


def convolution_cases():
    for n, i, o, size, window, stride, groups in CONVOLUTIONS:
        out, run = size // stride, torch_convolution(stride, window, groups)
        x, y, w = ("bf16", (n, size, size, i)), ("bf16", (n, out, out, o)), ("bf16", (o, window, window, i // groups))
        pads = f"strides=({stride}, {stride}), dilations=(1, 1), pads_begin=({window // 2}, {window // 2}), "
        pads += f"pads_end=({window // 2}, {window // 2}), groups={groups}, channels_last=true"
        name = f"{n}x{size}x{size}x{i}_{o}_{window}x{window}" + (f"_s{stride}" if stride > 1 else "")
        flops = 2 * n * out * out * o * window * window * i // groups
        moved = 2 * n * (size * size * i + out * out * o)
        group = "depthwise" if groups > 1 else "convolution"
        yield Case(f"conv_{name}", group, {"x": x, "w": w}, lines(f"%y = convolution(x, w) {{{pads}}}"), run["y"], flops=flops,
                   moved=moved)
        yield Case(f"conv_dx_{name}", group, {"dy": y, "w": w, "x": x},
                   lines(f"%y = convolution_transposed(dy, w) {{{pads}, sizes=[{size},{size}]}}"), run["dx"], flops=flops,
                   moved=moved)
        yield Case(f"conv_dw_{name}", group, {"x": x, "dy": y, "w": w},
                   lines(f"%y = convolution_weight_gradient(x, dy) {{{pads}, window=({window}, {window})}}"), run["dw"],
                   flops=flops, moved=moved)


def image_cases():
    """Batch norms must read x twice, since the sums come first; a pool reads x and writes a quarter of it."""
    n, size, c = 256, 56, 256
    x, vector = ("bf16", (n, size, size, c)), ("f32", (c,))
    elements = n * size * size * c
    yield Case("batch_norm_256x56x56x256", "images", {"x": x, "w": vector, "b": vector},
               lines("%y = batch_norm(x, w, b) {channels_last=true}"),
               lambda x, w, b: F.batch_norm(first(x), None, None, w, b, True), outputs=["%y", "%y:1", "%y:2"],
               moved=3 * 2 * elements)
    pool = ("bf16", (256, 112, 112, 64))
    yield Case("max_pool_256x112x112x64", "images", {"x": pool},
               lines("%y = max_pool(x) {window=(3, 3), strides=(2, 2), dilations=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), "
                     "channels_last=true}"),
               lambda x: F.max_pool2d(first(x), 3, 2, 1), moved=2 * 256 * 112 * 112 * 64 * 5 // 4)


def torch_inputs(case):
    tensors = {}
    for name, (dtype, shape) in case.inputs.items():
        if dtype == "i64":
            tensors[name] = torch.randint(1000, shape, device="cuda")
        else:
            tensors[name] = (torch.rand(shape, device="cuda") * 2 - 1).to(DTYPES[dtype])
    return tensors


def event_seconds(run, repeats):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3 / repeats


def median_seconds(run):
    for _ in range(3):
        run()
    once = event_seconds(run, 3)
    repeats = min(500, max(3, int(2e-3 / once)))
    return sorted(event_seconds(run, repeats) for _ in range(9))[4]


def graph_seconds(run):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            run()
    return median_seconds(graph.replay) / 10


def time_torch(case):
    _leaves.clear()
    tensors = torch_inputs(case)

    def run():
        return case.run(**tensors)

    result = {"eager": median_seconds(run)}
    if result["eager"] < 50e-6:
        try:
            result["graph"] = graph_seconds(run)
        except RuntimeError:
            torch.cuda.synchronize()
    return result


def copy_gbps():
    source = torch.rand(1 << 28, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / median_seconds(lambda: target.copy_(source)) * 1e-9


def time_genesis(build, cases):
    with tempfile.TemporaryDirectory() as folder:
        model, report = os.path.join(folder, "cases.txt"), os.path.join(folder, "report.json")
        with open(model, "w") as file:
            file.write("".join(case.text() for case in cases))
        subprocess.run([os.path.join(build, "bench/bench_time_entries"), model, "--device", "cuda", "--json", report],
                       check=True)
        with open(report) as file:
            return json.load(file)


def all_cases(flags):
    wanted = ["16M"] if flags.quick else flags.sizes.split(",")
    cases = [c for dtype in DTYPES for n in SIZES if size_name(n) in wanted for c in pointwise_cases(dtype, n)]
    cases += list(matmul_cases()) + list(attention_cases()) + list(other_heads_cases())
    cases += list(image_cases()) + list(convolution_cases())
    return [c for c in cases if not flags.only or any(word in c.name for word in flags.only.split(","))]


def row_of(case, ours, peer, copy):
    row = {"name": case.name, "group": case.group, "torch_us": peer["eager"] * 1e6}
    if "graph" in peer:
        row["torch_graph_us"] = peer["graph"] * 1e6
    if "seconds" not in ours:
        return {**row, "error": ours.get("error", "not run")}
    seconds = ours["seconds"]
    row.update(us=seconds * 1e6, ratio=peer["eager"] / seconds)
    if case.moved:
        row.update(gbps=case.moved / seconds * 1e-9, of_copy=case.moved / seconds * 1e-9 / copy)
    if case.flops:
        row["tflops"] = case.flops / seconds * 1e-12
    return row


def text_of(row):
    if "error" in row:
        return f"{row['name']:<34} {'-':>10} {row['torch_us']:>10.1f}  {row['error'][:60]}"
    extra = f"{row['tflops']:>8.1f} TFLOP/s" if "tflops" in row else f"{row['gbps']:>8.0f} GB/s {100 * row['of_copy']:>5.0f}% of copy"
    return f"{row['name']:<34} {row['us']:>10.1f} {row['torch_us']:>10.1f} {row['ratio']:>6.2f}x {extra}"


def summary(rows):
    """Prints per group how many cases are at least as fast as PyTorch, the slowest case and the geometric mean."""
    groups = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    for group, members in groups.items():
        good = [r for r in members if "ratio" in r]
        if not good:
            print(f"{group:<12} nothing ran")
            continue
        worst = min(good, key=lambda r: r["ratio"])
        mean = math.exp(sum(math.log(r["ratio"]) for r in good) / len(good))
        print(f"{group:<12} {sum(r['ratio'] >= 1 for r in good)} of {len(members)} at least PyTorch's speed, mean {mean:.2f}x, "
              f"slowest {worst['ratio']:.2f}x ({worst['name']})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--json")
    parser.add_argument("--only", help="cases whose name contains this, or one of these words with commas between them")
    parser.add_argument("--sizes", default=",".join(map(size_name, SIZES)), help="of the memory-bound cases: %(default)s")
    parser.add_argument("--quick", action="store_true", help="one size of them, and everything else")
    flags = parser.parse_args()
    cases = all_cases(flags)
    torch.backends.cudnn.benchmark = True  # PyTorch's convolutions take the fastest plan, too
    ours = time_genesis(flags.build, cases)
    copy = copy_gbps()
    rows = []
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, copy {copy:.0f} GB/s\n"
          f"{'case':<34} {'us':>10} {'PyTorch us':>10} {'ratio':>7}")
    for case in cases:
        try:
            peer = time_torch(case)
        except Exception as error:  # one case that PyTorch cannot run must not cost the others
            print(f"{case.name}: PyTorch cannot run it: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        rows.append(row_of(case, ours.get(case.name, {}), peer, copy))
        print(text_of(rows[-1]), flush=True)
    print()
    summary(rows)
    if flags.json:
        with open(flags.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_gbps": copy,
                       "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
