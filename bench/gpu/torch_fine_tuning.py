#!/usr/bin/env python3
"""Times a fine-tuning step of a packed batch in PyTorch, for fine_tuning.py: transformers' Qwen2, torch.compile, AdamW, clipping.

    python3 bench/gpu/torch_fine_tuning.py FOLDER --part full|lora --attention varlen|flex|sdpa [--adapters f32|bf16] [--layers N] [--device cuda]

FOLDER holds tokens.npy, targets.npy, positions.npy and segments.npy. Prints "ready" when the step is compiled, waits for a line
on stdin, then times the step and prints a JSON object. So several variants can be compiled in parallel and timed one after the
other.

    varlen   torch.nn.attention.varlen: FlashAttention with the start of each text (cu_seqlens), as used by padding-free training
    flex     transformers' flex_attention, with the block mask that transformers makes from position_ids
    sdpa     scaled_dot_product_attention with the mask that transformers makes from position_ids

full: weights in f32 under autocast to bf16. lora: weights in bf16, adapters of rank 16 on all linear layers except the head, in
f32 under autocast, as peft makes them, or in bf16. Without peft, layers with the same arithmetic replace those of peft.
"""
import argparse
import inspect
import json
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, Qwen2Config, Qwen2ForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

WARMUP = 5


class LoraLinear(nn.Module):
    """Computes the same as peft's layer without dropout."""

    def __init__(self, base, rank, alpha, dtype):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.lora_a = nn.Linear(base.in_features, rank, bias=False, device=base.weight.device, dtype=dtype)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False, device=base.weight.device, dtype=dtype)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x.to(self.lora_a.weight.dtype))) * self.scale


def add_own_adapters(model, dtype):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for layer in model.model.layers:
        for module in (layer.self_attn, layer.mlp):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, LoraLinear(child, 16, 32, dtype))
    return model, "layers like peft's"


def with_adapters(model, dtype):
    try:
        import peft
    except ImportError:
        return add_own_adapters(model, dtype)
    config = peft.LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
    return peft.get_peft_model(model, config, autocast_adapter_dtype=dtype == torch.float32), f"peft {peft.__version__}"


def varlen(module, query, key, value, mask, scaling=None, cu_seq_lens_q=None, max_length_q=None, **_):
    from torch.nn.attention.varlen import varlen_attn
    known = inspect.signature(varlen_attn).parameters
    causal = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    if "enable_gqa" in known:
        causal["enable_gqa"] = True
    q, k, v = (x.transpose(1, 2).flatten(0, 1).to(value.dtype) for x in (query, key, value))
    y = varlen_attn(q, k, v, cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q, **causal)
    return y.view(query.shape[0], query.shape[2], *y.shape[1:]), None


def register_attention():
    """Registers transformers' attention functions again, with casts, since autocast leaves the operands in two dtypes."""
    AttentionInterface.register("packed_varlen", varlen)
    AttentionMaskInterface.register("packed_varlen", lambda *_, **__: None)
    for name, theirs in (("flex", "flex_attention"), ("sdpa", "sdpa")):
        def attend(module, query, key, value, mask, *rest, run=ALL_ATTENTION_FUNCTIONS[theirs], **named):
            return run(module, query.to(value.dtype), key.to(value.dtype), value, mask, *rest, **named)
        AttentionInterface.register("packed_" + name, attend)
        AttentionMaskInterface.register("packed_" + name, ALL_MASK_ATTENTION_FUNCTIONS[theirs])


def lengths_of(segments):
    """Returns the number of tokens of each text; padding counts as one more text."""
    lengths = []
    for row in segments:
        edges = np.flatnonzero(np.diff(row)) + 1
        lengths += np.diff(np.concatenate([[0], edges, [len(row)]])).tolist()
    return lengths


def batch_of(flags):
    arrays = {name: np.load(os.path.join(flags.folder, name + ".npy"))[:flags.batch] for name in ("tokens", "targets", "positions", "segments")}
    to = lambda x: torch.from_numpy(np.ascontiguousarray(x)).to(flags.device)
    batch = {"input_ids": to(arrays["tokens"]), "position_ids": to(arrays["positions"])}
    # transformers shifts labels by one itself.
    batch["labels"] = to(np.concatenate([np.full_like(arrays["targets"][:, :1], -100), arrays["targets"][:, :-1]], axis=1))
    if flags.attention == "varlen":
        lengths = lengths_of(arrays["segments"])
        starts = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32, device=flags.device)
        batch.update(cu_seq_lens_q=starts, cu_seq_lens_k=starts, max_length_q=max(lengths), max_length_k=max(lengths))
    return batch


def model_of(flags):
    with open(os.path.join(flags.folder, "shape.json")) as file:
        shape = json.load(file)
    config = Qwen2Config(**shape, rope_theta=1e6, tie_word_embeddings=True, attn_implementation="packed_" + flags.attention)
    adapters = torch.float32 if flags.adapters == "f32" else torch.bfloat16
    base = torch.float32 if flags.part == "full" else torch.bfloat16
    with torch.device(flags.device):
        torch.set_default_dtype(base)
        model = Qwen2ForCausalLM(config).train()
        torch.set_default_dtype(torch.float32)
        return with_adapters(model, adapters) if flags.part == "lora" else (model, "")


def step_of(flags, model, batch):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5 if flags.part == "full" else 2e-4, fused=True)
    casts = flags.part == "full" or flags.adapters == "f32"

    def loss_of(**batch):
        with torch.autocast(flags.device, torch.bfloat16, enabled=casts):
            return model(**batch, use_cache=False).loss

    forward = loss_of if flags.eager else torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward(**batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--part", choices=["full", "lora"], required=True)
    parser.add_argument("--attention", choices=["varlen", "flex", "sdpa"], required=True)
    parser.add_argument("--adapters", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    flags = parser.parse_args()
    torch.manual_seed(0)
    register_attention()
    model, adapters = model_of(flags)
    step = step_of(flags, model, batch_of(flags))
    synchronize = torch.cuda.synchronize if flags.device == "cuda" else lambda: None
    losses = [step().item() for _ in range(WARMUP)]
    print("ready", flush=True)
    sys.stdin.readline()
    times = []
    for _ in range(flags.steps):
        synchronize()
        start = time.perf_counter()
        step()
        synchronize()
        times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if flags.device == "cuda" else 0
    print(json.dumps({"seconds": sorted(times)[len(times) // 2], "peak_bytes": peak, "adapters": adapters, "losses": losses,
                      "torch": torch.__version__}))


main()
