#!/usr/bin/env python3
"""Makes adapters as PEFT saves them, and lora.json with PEFT's results: qwen2_lora/ and qwen2_lora_patterns/ for qwen2_tied, and
those of beyond(), with more than additions to linear layers.

    python3 tests/models/hugging_face/make_lora.py                  needs torch, transformers and peft
    python3 tests/models/hugging_face/make_lora.py ADAPTER          prints how far the logits of an adapter that genesis-opt
                                                                    wrote are from qwen2_lora's
    python3 tests/models/hugging_face/make_lora.py --beyond         makes only the adapters of beyond()
    python3 tests/models/hugging_face/make_lora.py --families NAME...    makes only those of these families

`logits` are those of the last position of a prompt, in f32; `curve` the losses of 20 steps of AdamW on the adapter. The
layers of the second adapter have different ranks and alphas, given by expressions of which several match a layer; `patterns`
has its logits. `families` has those of an adapter for checkpoints of other families, in the folders NAME_lora. `beyond` has the
base model and the logits of adapters that also change whole weights.
"""
import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

HERE = Path(__file__).parent
PROMPT = [5, 1, 36, 0, 7, 60, 22, 9]
STEPS = 20


def tokens(step):
    i = torch.arange(2 * 17).reshape(2, 17)
    ids = (i * 7 + (i // 3) * 5 + step * 11) % 61
    return ids[:, :-1], ids[:, 1:]


# Layers with adapters, in families that have them at other places or of other kinds than Qwen2.
FAMILIES = {"gemma3": ["q_proj", "v_proj", "up_proj"], "cohere": ["k_proj", "o_proj", "gate_proj"], "starcoder2": ["v_proj", "c_fc", "c_proj"],
            "phi3": ["qkv_proj", "gate_up_proj", "down_proj"], "glm4": ["k_proj", "gate_up_proj"]}


def base(name="qwen2_tied"):
    return AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float32)


def logits(model):
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits[0, -1]


def patterns():
    """Writes an adapter and returns its logits."""
    torch.manual_seed(4)
    config = LoraConfig(r=4, lora_alpha=6, lora_dropout=0.0, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM",
                        use_rslora=True,
                        rank_pattern={r"layers\.1\.self_attn\..*_proj": 2, "q_proj": 3, "model.layers.0.mlp.down_proj": 5, "no_such_layer": 7},
                        alpha_pattern={"v_proj": 10, r"(q|down)_proj": 2.5, "layers.1.self_attn.q_proj": 100})
    model = get_peft_model(base(), config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn_like(weight) * 0.2)
    folder = HERE / "qwen2_lora_patterns"
    shutil.rmtree(folder, ignore_errors=True)
    model.peft_config["default"].base_model_name_or_path = "qwen2_tied"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    return logits(model).tolist()


def of_family(name, layers):
    """Writes an adapter for the checkpoint and returns its logits."""
    torch.manual_seed(5)
    config = LoraConfig(r=2, lora_alpha=3, lora_dropout=0.0, target_modules=layers, task_type="CAUSAL_LM")
    model = get_peft_model(base(name), config).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "lora_B" in key:
                weight.copy_(torch.randn_like(weight) * 0.2)
    folder = HERE / f"{name}_lora"
    shutil.rmtree(folder, ignore_errors=True)
    model.peft_config["default"].base_model_name_or_path = name
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    return logits(model).tolist()


# More than additions to linear layers: (folder, base model, settings).
BEYOND = [
    ("qwen2_dora", "qwen2_tied", dict(use_dora=True, use_rslora=True, r=2, lora_alpha=3, target_modules=r".*layers\.\d+\.(self_attn\.q_proj|mlp\.down_proj)",
                                      rank_pattern={r"layers\.1\..*": 3})),
    ("qwen2_biases", "qwen2_tied", dict(r=2, lora_alpha=5, target_modules="all-linear", exclude_modules=["o_proj", "up_proj"], layers_to_transform=None, bias="all")),
    ("qwen2_lora_bias", "qwen2_tied", dict(r=2, lora_alpha=5, target_modules=["q_proj", "k_proj"], layers_to_transform=[1], lora_bias=True)),
    ("qwen2_modules", "qwen2_sharded", dict(r=2, lora_alpha=4, target_modules=["v_proj", "embed_tokens"], modules_to_save=["lm_head", "norm"])),
    ("gpt2_dora", "gpt2_untied", dict(use_dora=True, r=2, lora_alpha=4, target_modules=["c_attn"], fan_in_fan_out=True)),
]


def beyond():
    """Writes the adapters and returns their base models and logits."""
    results = {}
    for place, (name, of, settings) in enumerate(BEYOND):
        torch.manual_seed(5 + place)
        if settings.get("target_modules") == "all-linear":
            settings["exclude_modules"] = ["o_proj", "up_proj", "lm_head"]
        model = AutoModelForCausalLM.from_pretrained(HERE / of, dtype=torch.float32)
        model = get_peft_model(model, LoraConfig(lora_dropout=0.0, task_type="CAUSAL_LM", **settings)).eval()
        with torch.no_grad():
            for parameter, weight in model.named_parameters():
                if "magnitude" in parameter:
                    weight.mul_(1 + 0.3 * torch.rand_like(weight))
                elif "lora_" in parameter or ("bias" in parameter and weight.requires_grad):
                    weight.copy_(torch.randn_like(weight) * 0.2)
                elif "modules_to_save" in parameter:
                    weight.add_(torch.randn_like(weight) * 0.1)
        shutil.rmtree(HERE / name, ignore_errors=True)
        model.peft_config["default"].base_model_name_or_path = of
        model.save_pretrained(HERE / name)
        (HERE / name / "README.md").unlink(missing_ok=True)
        results[name] = {"base": of, "logits": logits(model).tolist()}
    return results


def main():
    if sys.argv[1:] == ["--beyond"]:  # the others stay as they are
        expected = json.loads((HERE / "lora.json").read_text())
        expected["beyond"] = beyond()
        return (HERE / "lora.json").write_text(json.dumps(expected, indent=1) + "\n")
    if sys.argv[1:2] == ["--families"]:
        expected = json.loads((HERE / "lora.json").read_text())
        expected["families"].update({name: of_family(name, FAMILIES[name]) for name in sys.argv[2:]})
        return (HERE / "lora.json").write_text(json.dumps(expected, indent=1) + "\n")
    torch.manual_seed(3)
    torch.set_num_threads(1)
    config = LoraConfig(r=4, lora_alpha=6, lora_dropout=0.0, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(base(), config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(torch.randn_like(weight) * 0.2)
    folder = HERE / "qwen2_lora"
    shutil.rmtree(folder, ignore_errors=True)
    model.peft_config["default"].base_model_name_or_path = "qwen2_tied"
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    expected = {"prompt": PROMPT, "logits": logits(model).tolist(), "curve": []}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, eps=1e-5, weight_decay=0.01)
    for step in range(STEPS):
        ids, targets = tokens(step)
        loss = torch.nn.functional.cross_entropy(model(ids).logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected["curve"].append(loss.item())
    expected["patterns"] = patterns()
    expected["families"] = {name: of_family(name, layers) for name, layers in FAMILIES.items()}
    expected["beyond"] = beyond()
    (HERE / "lora.json").write_text(json.dumps(expected, indent=1) + "\n")


def compare(folder):
    ours = logits(PeftModel.from_pretrained(base(), folder).eval())
    theirs = torch.tensor(json.loads((HERE / "lora.json").read_text())["logits"])
    print(f"largest difference of a logit: {(ours - theirs).abs().max().item():.3g}")


if __name__ == "__main__":
    compare(sys.argv[1]) if len(sys.argv) > 1 and not sys.argv[1].startswith("--") else main()
