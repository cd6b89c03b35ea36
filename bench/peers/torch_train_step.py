#!/usr/bin/env python3
"""Times the training step of bench/language/train_step.cpp in PyTorch, eager and compiled, as its peer.

The sizes and the arithmetic are the same: Qwen2 (RMSNorm, rotary embedding, biases on q, k and v, SwiGLU, tied head), f32,
cross-entropy, clipping by norm, AdamW; with PyTorch's own fused attention, rms_norm and fused AdamW.

    python3 bench/peers/torch_train_step.py [--json FILE] [--rounds N] [--threads N] [--wall-only]

--wall-only leaves out the step with one thread, which torch.compile compiles again: minutes on some machines.

If PyTorch is missing, prints a message and exits with 0: Genesis itself does not need it.
"""
import argparse
import json
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    print("PyTorch is missing: the comparison with it is skipped (TORCH_PYTHON names a python that has it)")
    sys.exit(0)

HIDDEN, INTERMEDIATE, LAYERS, HEADS, VOCABULARY = 512, 1408, 8, 8, 8192
BATCH, SEQ = 8, 256


def rotate(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-high, low), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.post_attention_layernorm = nn.RMSNorm(HIDDEN, eps=1e-6)
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
        self.o_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.gate_proj, self.up_proj = (nn.Linear(HIDDEN, INTERMEDIATE, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(INTERMEDIATE, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        h = self.input_layernorm(x)
        q, k, v = (p(h).view(BATCH, SEQ, HEADS, -1).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.o_proj(y.transpose(1, 2).reshape(BATCH, SEQ, HIDDEN))
        h = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class Qwen2(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, HIDDEN)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(HIDDEN, eps=1e-6)
        size = HIDDEN // HEADS
        angles = torch.outer(torch.arange(SEQ), 1e6 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens, targets):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embed_tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def seconds_per_step(compiled, rounds, wall_only):
    """Returns the wall time with all threads, and the processor time with one (or None)."""
    torch.manual_seed(1)
    model = Qwen2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    loss_of = torch.compile(model) if compiled else model
    tokens, targets = (torch.randint(VOCABULARY, (BATCH, SEQ)) for _ in range(2))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(tokens, targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def best(clock, rounds):
        times = []
        for _ in range(rounds):
            start = clock()
            step()
            times.append(clock() - start)
        return min(times)

    best(time.perf_counter, 2)  # allocates, compiles
    seconds = best(time.perf_counter, rounds)
    if wall_only:
        return seconds, None
    torch.set_num_threads(1)
    best(time.perf_counter, 1)
    return seconds, best(time.process_time, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--wall-only", action="store_true")
    flags = parser.parse_args()
    report = {"torch": torch.__version__, "threads": flags.threads}
    for name, compiled in (("eager", False), ("compile", True)):
        if compiled and flags.no_compile:
            continue
        try:
            torch.set_num_threads(flags.threads)
            seconds, core_seconds = seconds_per_step(compiled, flags.rounds, flags.wall_only)
        except Exception as error:  # torch.compile needs a C++ compiler and more that may be missing
            print(f"PyTorch {torch.__version__} {name}: cannot run here: {str(error).splitlines()[0]}")
            continue
        report[name + "_seconds"] = seconds
        if core_seconds:
            report[name + "_core_seconds"] = core_seconds  # processor time with one thread
        report[name + "_tokens_per_second"] = BATCH * SEQ / seconds
        print(f"PyTorch {torch.__version__} {name}, {flags.threads} threads: {seconds:.3f} s, "
              f"{BATCH * SEQ / seconds:.0f} tokens/s" + (f"; one thread, in processor time: {core_seconds:.3f} s" if core_seconds else ""))
        if flags.json:  # after each mode, in case the next one is cut off
            with open(flags.json, "w") as file:
                json.dump(report, file, indent=2)


main()
