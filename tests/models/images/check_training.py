#!/usr/bin/env python3
"""Compares 20 steps of training of exported programs, in f32, with torch's in f64, and torch's in f32 too:

  check_training.py TOOLS       TOOLS is build/tools

Each program is exported for inference, so that its batch norms keep their running statistics in both. Batches repeat after four steps. Prints a table of the
largest differences of a loss, as shares of it: of Genesis, and of torch in f32. Training amplifies rounding, so neither is near 1e-7 for all programs.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from torchvision import models
from torchvision.models.convnext import CNBlockConfig, ConvNeXt

from make_zoo import Unet

STEPS, BATCHES, ROWS = 20, 4, 4


class Ocr(nn.Module):
    """Reads a line of text: convolutions, a transformer layer, characters along the width."""
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, (2, 1), 1), nn.BatchNorm2d(16), nn.Hardswish(), nn.Conv2d(16, 24, 3, 2, 1), nn.ReLU())
        self.layer = nn.TransformerEncoderLayer(96, 4, 128, dropout=0, batch_first=True, activation='gelu')
        self.head = nn.Linear(96, 20)

    def forward(self, x):
        return self.head(self.layer(self.stem(x).flatten(1, 2).transpose(1, 2)))


def ctc(y, target):
    time = torch.full((len(y),), y.shape[1])
    return F.ctc_loss(y.log_softmax(-1).transpose(0, 1), target.clamp(min=0), time, (target >= 0).sum(1))


def texts():
    return torch.where(torch.arange(6) < torch.randint(2, 7, (ROWS, 1)), torch.randint(1, 20, (ROWS, 6)), -100)


def cases():
    classes = lambda: torch.randint(0, 10, (ROWS,))
    picture = lambda size: (lambda: torch.randn(ROWS, 3, size, size))
    convnext = ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, 64, 2), CNBlockConfig(64, None, 2)], layer_scale=0.1, num_classes=10)
    return [
        ('resnet18', models.resnet18(num_classes=10), picture(64), classes, F.cross_entropy, 'cross_entropy', 0.0002),
        ('mobilenet_v3_small', models.mobilenet_v3_small(num_classes=10, dropout=0), picture(64), classes, F.cross_entropy, 'cross_entropy', 0.0002),
        ('convnext', convnext, picture(64), classes, F.cross_entropy, 'cross_entropy', 0.005),
        ('vit', models.VisionTransformer(32, 8, 3, 4, 64, 128, num_classes=10), picture(32), classes, F.cross_entropy, 'cross_entropy', 0.005),
        ('unet', Unet(4, 10), picture(32), lambda: torch.randint(0, 10, (ROWS, 32, 32)), F.cross_entropy, 'cross_entropy', 0.005),
        ('ocr', Ocr(), lambda: torch.randn(ROWS, 1, 16, 48), texts, ctc, 'ctc', 0.005),
    ]


def losses_of_torch(path, dtype, xs, targets, loss, rate):
    model = torch.export.load(path).module().to(dtype)
    xs = [x.to(dtype) for x in xs]
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate, momentum=0.9)
    losses = []
    for step in range(STEPS):
        value = loss(model(xs[step % BATCHES]), targets[step % BATCHES])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def main():
    tools, folder = sys.argv[1], tempfile.mkdtemp()
    path = lambda name: os.path.join(folder, name)
    run = lambda *words: subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    torch.manual_seed(0)
    for name, model, picture, target, loss, loss_name, rate in cases():
        xs, targets = [[make() for _ in range(BATCHES)] for make in (picture, target)]
        if name == 'vit':
            nn.init.normal_(model.heads.head.weight, std=0.02)
        with torch.no_grad():
            for x in xs:
                model.train()(x)  # so that the running statistics fit
        program = torch.export.export(model.eval(), (xs[0],), dynamic_shapes=({0: torch.export.Dim('batch', max=64)},))
        torch.export.save(program, path('m.pt2'))
        wide, expected = (losses_of_torch(path('m.pt2'), dtype, xs, targets, loss, rate) for dtype in (torch.float64, torch.float32))
        save_file({'x': torch.cat(xs), 'target': torch.cat(targets)}, path('data.safetensors'))
        run(f'{tools}/genesis-build', path('m.pt2'), '-o', path('m.genesis'), '--quiet')
        run(f'{tools}/genesis-opt', path('m.genesis'), '--train', f'sgd,lr={rate},momentum=0.9', '--loss', loss_name, '-o', path('t.genesis'),
            '--quiet')
        run(f'{tools}/genesis-run', 'train', path('t.genesis'), '--data', path('data.safetensors'), '--batch', str(ROWS), '--no-shuffle',
            '--steps', str(STEPS), '--metrics', path('metrics'), '-o', path('o.genesis'), '--quiet')
        with open(path('metrics')) as file:
            rows = [json.loads(line) for line in file]
        os.remove(path('metrics'))
        got = [row['loss'] for row in rows if 'loss' in row]
        share = lambda values: max(abs(a - b) / abs(b) for a, b in zip(values, wide, strict=True))
        print(f'| {name} | {wide[0]:.4f} to {wide[-1]:.4f} | {share(got):.0e} | {share(expected):.0e} |', flush=True)


main()
