#!/usr/bin/env python3
"""Makes tests/models/golden.json: loss curves and gradients of small models, computed by PyTorch in f32.

Needs torch; the suite does not: it reads the numbers. Weights and data are formulas over names and indices that
models_golden_test.cpp repeats. Usage: python3 tests/models/make_golden.py
"""
import json
import math
import os
import zlib

import torch
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_num_threads(1)
STEPS = 50
# A curve can be compared with another implementation to 1e-4 only if rounding does not change it by as much. With
# Adam's default eps, parameters with tiny gradients move by the sign of their rounding errors. check_conditioning()
# makes sure that changing every weight by one unit in the last place has an effect below a tenth of the tolerance.
ADAMW = dict(lr=3e-4, betas=(0.9, 0.95), eps=1e-5, weight_decay=0.1)


def weight(name, shape):
    """Returns offset + scale * sin(0.7 i + phase) with a phase computed from the name. Weights of norms are around one."""
    n = math.prod(shape)
    phase = zlib.crc32(name.encode()) % 1000 / 100
    i = torch.arange(n, dtype=torch.float64)
    norm = "norm" in name
    scale = 0.1 if norm else 1.0 / math.sqrt(shape[-1])
    return ((1.0 if norm else 0.0) + scale * torch.sin(0.7 * i + phase)).reshape(shape).float().requires_grad_()


def tokens(step, batch, seq, vocab):
    i = torch.arange(batch * (seq + 1)).reshape(batch, seq + 1)
    ids = (i * 7 + (i // 3) * 5 + step * 11) % vocab
    return ids[:, :-1], ids[:, 1:]


def mlp(config):
    c = config
    params = {}
    sizes = [c["in_features"]] + [c["hidden_features"]] * c["num_hidden_layers"] + [c["num_classes"]]
    for k in range(len(sizes) - 1):
        for name, shape in ((f"layers.{2 * k}.weight", (sizes[k + 1], sizes[k])), (f"layers.{2 * k}.bias", (sizes[k + 1],))):
            params[name] = weight(name, shape)

    def loss(step):
        i = torch.arange(16 * c["in_features"], dtype=torch.float64).reshape(16, -1)
        x = torch.sin(0.3 * i + 0.1 * step).float()
        target = (torch.arange(16) * 3 + step) % c["num_classes"]
        for k in range(len(sizes) - 1):
            x = F.linear(x, params[f"layers.{2 * k}.weight"], params[f"layers.{2 * k}.bias"])
            if k + 2 < len(sizes):
                x = F.gelu(x)
        return F.cross_entropy(x, target)

    return params, loss


def rms_norm(x, w, eps):
    return w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def rope(x, theta):
    """Rotates x [batch, heads, time, size], pairing the two halves of a head."""
    time, size = x.shape[-2:]
    inv = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.outer(torch.arange(time, dtype=torch.float64), inv)
    angle = torch.cat((angle, angle), -1)
    half = torch.cat((-x[..., size // 2:], x[..., :size // 2]), -1)
    return x * angle.cos().float() + half * angle.sin().float()


def qwen(config, qwen3):
    c = config
    hidden, heads, kv, d = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    params = {}

    def p(name, *shape):
        params[name] = weight(name, shape)

    p("model.embed_tokens.weight", c["vocab_size"], hidden)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        p(at + "input_layernorm.weight", hidden)
        for n, out in (("q", heads * d), ("k", kv * d), ("v", kv * d)):
            p(at + f"self_attn.{n}_proj.weight", out, hidden)
            if not qwen3:
                p(at + f"self_attn.{n}_proj.bias", out)
        p(at + "self_attn.o_proj.weight", hidden, heads * d)
        if qwen3:
            p(at + "self_attn.q_norm.weight", d)
            p(at + "self_attn.k_norm.weight", d)
        p(at + "post_attention_layernorm.weight", hidden)
        for n, shape in (("gate", (c["intermediate_size"], hidden)), ("up", (c["intermediate_size"], hidden)), ("down", (hidden, c["intermediate_size"]))):
            p(at + f"mlp.{n}_proj.weight", *shape)
    p("model.norm.weight", hidden)
    if not c["tie_word_embeddings"]:
        p("lm_head.weight", c["vocab_size"], hidden)

    def forward(ids):
        eps = c["rms_norm_eps"]
        x = F.embedding(ids, params["model.embed_tokens.weight"])
        b, t, _ = x.shape
        for layer in range(c["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            h = rms_norm(x, params[at + "input_layernorm.weight"], eps)
            q, k, v = (F.linear(h, params[at + f"self_attn.{n}_proj.weight"], params.get(at + f"self_attn.{n}_proj.bias")).view(b, t, -1, d) for n in "qkv")
            if qwen3:
                q, k = rms_norm(q, params[at + "self_attn.q_norm.weight"], eps), rms_norm(k, params[at + "self_attn.k_norm.weight"], eps)
            q, k, v = (y.transpose(1, 2) for y in (q, k, v))
            q, k = rope(q, c["rope_theta"]), rope(k, c["rope_theta"])
            k, v = (y.repeat_interleave(heads // kv, 1) for y in (k, v))
            scores = q @ k.transpose(-1, -2) / math.sqrt(d)
            scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf)
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, heads * d)
            x = x + F.linear(y, params[at + "self_attn.o_proj.weight"])
            h = rms_norm(x, params[at + "post_attention_layernorm.weight"], eps)
            y = F.silu(F.linear(h, params[at + "mlp.gate_proj.weight"])) * F.linear(h, params[at + "mlp.up_proj.weight"])
            x = x + F.linear(y, params[at + "mlp.down_proj.weight"])
        x = rms_norm(x, params["model.norm.weight"], eps)
        return F.linear(x, params["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"])

    def loss(step):
        ids, targets = tokens(step, 4, 24, c["vocab_size"])
        return F.cross_entropy(forward(ids).flatten(0, 1), targets.flatten())

    return params, loss, forward


def gradient_facts(grad):
    """Returns the norm and up to five entries spread over the tensor."""
    flat = grad.flatten()
    at = sorted({round(k * (flat.numel() - 1) / 4) for k in range(5)})
    return {"norm": flat.double().norm().item(), "at": at, "values": [flat[i].item() for i in at]}


def train(params, loss_at):
    optimizer = torch.optim.AdamW(params.values(), **ADAMW)
    curve, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_at(step)
        loss.backward()
        if step == 0:
            gradients = {name: gradient_facts(p.grad) for name, p in params.items()}
        torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
        curve.append(loss.item())
    return {"losses": curve, "gradients": gradients}


def check_conditioning(name, make, losses):
    params, loss = make()
    with torch.no_grad():
        for p in params.values():
            p.mul_(1 + 1.2e-7 * torch.sin(1.3 * torch.arange(p.numel())).reshape(p.shape))
    moved = max(abs(a - b) / abs(a) for a, b in zip(losses, train(params, loss)["losses"]))
    print(f"{name}: one unit in the last place of the weights moves the curve by {moved:.1e}")
    assert moved < 1e-5, "too sensitive to rounding to be a reference"


MLP = dict(in_features=12, hidden_features=32, num_hidden_layers=2, num_classes=5, activation="gelu")
QWEN = dict(vocab_size=61, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, max_position_embeddings=64, rope_theta=10000.0, rms_norm_eps=1e-6)

golden = {}
params, loss = mlp(MLP)
golden["mlp"] = {"settings": MLP} | train(params, loss)
check_conditioning("mlp", lambda: mlp(MLP), golden["mlp"]["losses"])
for name, qwen3, tied in (("qwen2", False, True), ("qwen3", True, False)):
    config = QWEN | {"tie_word_embeddings": tied}
    params, loss, forward = qwen(config, qwen3)
    ids, _ = tokens(0, 1, 10, config["vocab_size"])
    with torch.no_grad():
        logits = forward(ids)[0, -1].tolist()
    golden[name] = {"settings": config, "last_logits": logits} | train(params, loss)
    check_conditioning(name, lambda: qwen(config, qwen3)[:2], golden[name]["losses"])
path = os.path.join(os.path.dirname(__file__), "golden.json")
with open(path, "w") as f:
    json.dump(golden, f, indent=None, separators=(",", ":"))
    f.write("\n")
print("wrote", path, os.path.getsize(path), "bytes;", {k: (v["losses"][0], v["losses"][-1]) for k, v in golden.items()})
