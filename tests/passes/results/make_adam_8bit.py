#!/usr/bin/env python3
"""Makes tests/passes/results/adam_8bit.json: 200 steps of AdamW on two matrices with moments of 8 bits, by an implementation of the
same block-wise codes in numpy beside torch's gradients, and with f32 moments by torch.optim.AdamW.

The suite does not need torch: it reads the numbers. Usage: python3 tests/passes/results/make_adam_8bit.py
"""
import json
import os

import numpy as np
import torch

torch.set_num_threads(1)
STEPS, BLOCK = 200, 256
LR, BETAS, EPS, DECAY = 0.003, (0.9, 0.999), 1e-8, 0.01


def magnitudes(fine_octaves, count):
    """Returns 1, then 16 numbers an octave, then 4 an octave, `count` in all, the smallest first."""
    numbers, octave = [1.0], 1
    while len(numbers) < count:
        each = 16 if octave <= fine_octaves else 4
        numbers += [(1 + j / each) * 2.0**-octave for j in reversed(range(each))]
        octave += 1
    return np.array(numbers[:count][::-1], np.float32)


OF_M = magnitudes(4, 128)
OF_M = np.concatenate([-OF_M[:0:-1], [0], OF_M[1:]]).astype(np.float32)
OF_V = magnitudes(12, 256)


def rounded(x, numbers):
    """Returns x after encoding and decoding: in each block the nearest of `numbers` times the largest absolute value."""
    blocks = x.reshape(-1, BLOCK)
    scales = np.abs(blocks).max(axis=1, keepdims=True)
    y = blocks / np.maximum(scales, np.float32(1e-30))
    return (numbers[np.searchsorted((numbers[1:] + numbers[:-1]) / 2, y, side="right")] * scales).reshape(x.shape)


class AdamW8bit:
    """AdamW whose moments of tensors with at least 4,096 values are rounded after each step, and used before."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.m = [np.zeros(tuple(p.shape), np.float32) for p in parameters]
        self.v = [np.zeros(tuple(p.shape), np.float32) for p in parameters]
        self.steps = 0

    def step(self):
        self.steps += 1
        f32 = np.float32
        for i, p in enumerate(self.parameters):
            g, w = p.grad.numpy(), p.detach().numpy()
            m = self.m[i] + (g - self.m[i]) * f32(1 - BETAS[0])
            v = self.v[i] * f32(BETAS[1]) + g * g * f32(1 - BETAS[1])
            root = np.sqrt(v) * f32(1 / np.sqrt(1 - BETAS[1]**self.steps)) + f32(EPS)
            w[...] = w * f32(1 - LR * DECAY) - f32(LR / (1 - BETAS[0]**self.steps)) * (m / root)
            is_coded = m.size >= 4096
            self.m[i], self.v[i] = (rounded(m, OF_M), rounded(v, OF_V)) if is_coded else (m, v)


def numbers(n, phase, scale):
    i = torch.arange(n, dtype=torch.float64)
    return scale * torch.sin(0.7 * i + 0.013 * i * i + phase)


def curve(make_optimizer):
    """Returns the losses, for data and weights given by formulas that adam_8bit_test.cpp repeats."""
    p = [numbers(128 * 64, 0, 0.2).reshape(128, 64), numbers(128, 1, 0.1), numbers(40 * 128, 2, 0.15).reshape(40, 128), numbers(40, 3, 0.1)]
    p = [x.float().requires_grad_() for x in p]
    x, y = numbers(512 * 64, 4, 1).reshape(512, 64).float(), numbers(512 * 40, 5, 1).reshape(512, 40).float()
    optimizer = make_optimizer(p)
    losses = []
    for _ in range(STEPS):
        hidden = torch.tanh(torch.nn.functional.linear(x, p[0], p[1]))
        loss = (torch.nn.functional.linear(hidden, p[2], p[3]) - y).square().mean()
        for parameter in p:
            parameter.grad = None
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


golden = {"8bit": curve(AdamW8bit), "f32": curve(lambda p: torch.optim.AdamW(p, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY))}
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "adam_8bit.json"), "w") as out:
    json.dump(golden, out, indent=0)
    out.write("\n")
