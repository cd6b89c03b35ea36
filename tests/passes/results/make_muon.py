#!/usr/bin/env python3
"""Makes tests/passes/results/muon.json: 50 steps of torch.optim.Muon on two matrices (one wide, one tall) beside AdamW on
their biases. torch iterates in bf16. "curves" come from torch's source with f32 instead, and "bf16_curve" from the unchanged
source.

Needs torch >= 2.9; the suite does not: it reads the numbers. Usage: python3 tests/passes/results/make_muon.py
"""
import inspect
import json
import os

import torch
import torch.optim._muon as muon

torch.set_num_threads(1)
STEPS = 50
ADAMW = dict(lr=0.01, betas=(0.9, 0.95), eps=1e-8)


def numbers(n, phase, scale):
    i = torch.arange(n, dtype=torch.float64)
    return scale * torch.sin(0.7 * i + 0.013 * i * i + phase)


def curve(iterate, **settings):
    """Returns the losses, for data and weights given by formulas that muon_test.cpp repeats."""
    muon._zeropower_via_newtonschulz = iterate
    p = [numbers(24 * 6, 0, 0.4).reshape(24, 6), numbers(24, 1, 0.1), numbers(5 * 24, 2, 0.2).reshape(5, 24), numbers(5, 3, 0.1)]
    p = [x.float().requires_grad_() for x in p]
    x, y = numbers(16 * 6, 4, 1).reshape(16, 6).float(), numbers(16 * 5, 5, 1).reshape(16, 5).float()
    optimizers = [muon.Muon([p[0], p[2]], **settings), torch.optim.AdamW([p[1], p[3]], weight_decay=settings["weight_decay"], **ADAMW)]
    losses = []
    for _ in range(STEPS):
        hidden = torch.tanh(torch.nn.functional.linear(x, p[0], p[1]))
        loss = (torch.nn.functional.linear(hidden, p[2], p[3]) - y).square().mean()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return losses


published = muon._zeropower_via_newtonschulz
scope = dict(vars(muon))
exec(inspect.getsource(published).replace("torch.bfloat16", "torch.float32"), scope)
in_f32 = scope["_zeropower_via_newtonschulz"]
common = dict(lr=0.02, weight_decay=0.05)
golden = {
    "curves": {
        "muon,lr=0.02,weight_decay=0.05": curve(in_f32, **common),
        "muon,lr=0.02,weight_decay=0.05,nesterov=false,momentum=0.8": curve(in_f32, nesterov=False, momentum=0.8, **common),
        "muon,lr=0.02,weight_decay=0.05,adjust_lr=match_rms_adamw,ns_steps=3": curve(
            in_f32, adjust_lr_fn="match_rms_adamw", ns_steps=3, **common),
    },
    "bf16_curve": curve(published, **common),
}
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "muon.json"), "w") as out:
    json.dump(golden, out, indent=0)
    out.write("\n")
