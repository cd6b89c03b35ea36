#!/usr/bin/env python3
"""Makes tests/passes/results/schedules.json: learning rates of every step, computed by torch.optim.lr_scheduler and, for
WSD, by transformers. Keys are training options as genesis-opt --train takes them; "plateau" also has the losses given to it.

Needs torch and transformers; the suite does not: it reads the numbers. Usage: python3 tests/passes/results/make_schedules.py
"""
import json
import math
import os
import warnings

import torch
from torch.optim import lr_scheduler as S
from transformers import get_polynomial_decay_schedule_with_warmup, get_wsd_schedule

warnings.filterwarnings("ignore")
LR = 0.02


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)


def rates(make, steps):
    opt = optimizer()
    schedule = make(opt)
    result = []
    for _ in range(steps):
        result.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    return result


def behind_warmup(steps, make):
    def both(opt):
        rise = S.LambdaLR(opt, lambda t: t / steps)
        return S.SequentialLR(opt, [rise, make(opt)], [steps])

    return both


CASES = {
    "schedule=constant,warmup=5": (behind_warmup(5, lambda o: S.ConstantLR(o, 1.0)), 12),
    "schedule=step,step_size=4,gamma=0.3": (lambda o: S.StepLR(o, 4, 0.3), 15),
    "schedule=step,step_size=4,gamma=0.3,warmup=3": (behind_warmup(3, lambda o: S.StepLR(o, 4, 0.3)), 18),
    "schedule=multi_step,milestones=2;3;9,gamma=0.5": (lambda o: S.MultiStepLR(o, [2, 3, 9], 0.5), 14),
    "schedule=multi_step,milestones=2;9,warmup=4": (behind_warmup(4, lambda o: S.MultiStepLR(o, [2, 9])), 18),
    "schedule=exponential,gamma=0.9,warmup=4": (behind_warmup(4, lambda o: S.ExponentialLR(o, 0.9)), 12),
    "schedule=polynomial,total=10": (lambda o: S.PolynomialLR(o, 10, 1.0), 13),
    "schedule=polynomial,total=10,power=2.5": (lambda o: S.PolynomialLR(o, 10, 2.5), 13),
    "schedule=polynomial,total=14,power=2,min_lr=0.001,warmup=4": (
        lambda o: get_polynomial_decay_schedule_with_warmup(o, 4, 14, lr_end=0.001, power=2.0), 18),
    "schedule=linear,total=9,end_factor=0.25": (lambda o: S.LinearLR(o, 1.0, 0.25, 9), 12),
    "schedule=cosine,total=10,min_lr=0.001": (lambda o: S.CosineAnnealingLR(o, 10, 0.001), 11),
    "schedule=cosine_restarts,period=4": (lambda o: S.CosineAnnealingWarmRestarts(o, 4), 14),
    "schedule=cosine_restarts,period=3,period_factor=2,min_lr=0.002": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.002), 50),
    "schedule=cosine_restarts,period=5,period_factor=3,warmup=6": (
        behind_warmup(6, lambda o: S.CosineAnnealingWarmRestarts(o, 5, 3)), 80),
    "schedule=one_cycle,total=20": (
        lambda o: S.OneCycleLR(o, max_lr=LR, total_steps=20, cycle_momentum=False), 19),
}
# With a minimum rate, transformers also begins the warm-up there. Here it begins at 0, as in all other schedules.
for shape, name in (("linear", "linear"), ("cosine", "cosine"), ("sqrt", "1-sqrt")):
    for warmup, least in ((5, 0), (0, 0.1)):
        text = f"schedule=wsd,total=20,decay=8,warmup={warmup},decay_shape={shape},min_lr={least * LR}"
        CASES[text] = (lambda o, name=name, warmup=warmup, least=least: get_wsd_schedule(
            o, num_warmup_steps=warmup, num_decay_steps=8, num_training_steps=20, min_lr_ratio=least, decay_type=name), 24)


def plateau(losses, **settings):
    """Returns the rate after each of the losses."""
    opt = optimizer()
    schedule = S.ReduceLROnPlateau(opt, **settings)
    result = []
    for loss in losses:
        schedule.step(loss)
        result.append(opt.param_groups[0]["lr"])
    return {"losses": losses, "rates": result}


LOSSES = [round(2 * math.exp(-0.2 * i) + 0.05 * math.sin(1.7 * i) + (0.4 if 12 < i < 17 else 0), 6) for i in range(60)]
PLATEAU = {
    "schedule=plateau,factor=0.5,patience=2": plateau(LOSSES, factor=0.5, patience=2),
    "schedule=plateau,factor=0.3,patience=1,cooldown=4,min_lr=0.0001,threshold=0.05": plateau(
        LOSSES, factor=0.3, patience=1, cooldown=4, min_lr=1e-4, threshold=0.05),
    "schedule=plateau,patience=0": plateau(LOSSES, patience=0),
}

here = os.path.dirname(os.path.abspath(__file__))
golden = {"lr": LR, "schedules": {text: rates(make, steps) for text, (make, steps) in CASES.items()}, "plateau": PLATEAU}
with open(os.path.join(here, "schedules.json"), "w") as out:
    json.dump(golden, out, indent=0)
    out.write("\n")
