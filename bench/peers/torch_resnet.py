#!/usr/bin/env python3
"""Times the network of bench/cpu/resnet.cpp in PyTorch on a GPU, as its peer: ResNet-50 in bf16 with channels last, compiled.

    python3 bench/peers/torch_resnet.py [BATCH [infer|train]]

Prints the best of some runs by the device's clock, and the most memory that tensors took. Inference has reduce-overhead (CUDA
graphs). If torch or a GPU is missing, prints a message and exits with 0.
"""
import sys

try:
    import torch
    from torch import nn
except ImportError as error:
    print(f"{error.name} is missing: the comparison with PyTorch is skipped")
    sys.exit(0)


def normed(inputs, outputs, window, stride):
    conv = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.first, self.second = normed(inputs, width, 1, 1), normed(width, width, 3, stride)
        self.third = normed(width, 4 * width, 1, 1)
        has_shortcut = stride != 1 or inputs != 4 * width
        self.shortcut = normed(inputs, 4 * width, 1, stride) if has_shortcut else nn.Identity()

    def forward(self, x):
        y = self.third(torch.relu(self.second(torch.relu(self.first(x)))))
        return torch.relu(y + self.shortcut(x))


def resnet():
    layers = [normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for layer, blocks in enumerate([3, 4, 6, 3]):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, 64 << layer, 2 if block == 0 and layer > 0 else 1))
            inputs = 4 * (64 << layer)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def best_milliseconds(step, runs=12, repeats=10):
    for _ in range(5):
        step()
    best = float("inf")
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(repeats):
            step()
        end.record()
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(end) / repeats)
    return best


def inference(batch):
    model = resnet().cuda().eval().to(torch.bfloat16, memory_format=torch.channels_last)
    x = torch.rand(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    compiled = torch.compile(model, mode="reduce-overhead")

    def step():
        with torch.no_grad():
            compiled(x)

    return step


def training(batch):
    model = resnet().cuda().train().to(memory_format=torch.channels_last)
    x = torch.rand(batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    target = torch.zeros(batch, dtype=torch.long, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    compiled = torch.compile(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(compiled(x), target)
        loss.backward()
        optimizer.step()

    return step


def main():
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    trains = len(sys.argv) > 2 and sys.argv[2] == "train"
    if not torch.cuda.is_available():
        print("there is no GPU: the comparison with PyTorch is skipped")
        return
    best = best_milliseconds(training(batch) if trains else inference(batch))
    memory = torch.cuda.max_memory_allocated() / 1e9
    print(f"torch {torch.__version__}, ResNet-50, {'train' if trains else 'infer'}, batch {batch}: {best:.3f} ms, "
          f"{memory:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
