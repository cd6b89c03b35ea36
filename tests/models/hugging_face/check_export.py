#!/usr/bin/env python3
"""Opens the output of `genesis-run export` with transformers, and compares its logits with those of genesis-run and of the
original checkpoint.

    python3 tests/models/hugging_face/check_export.py build/tools      needs torch and transformers

Every checkpoint beside this file is imported and exported again: whole, in shards and in other dtypes. Every language model
of the zoo is initialized and exported.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

HERE = Path(__file__).parent
PROMPT = [5, 1, 36, 0, 7, 60, 22, 9]
SIZES = dict(vocab_size=61, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
MAMBA = dict(mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=6)
ZOO = {
    "qwen2": SIZES | dict(rope_theta=20000), "qwen3": SIZES | dict(head_dim=8, tie_word_embeddings="false"), "llama": SIZES | dict(rms_norm_eps=1e-5),
    "llama yarn": SIZES | dict(rope_scaling="yarn", rope_factor=4, rope_original_positions=4, rope_attention_factor=1.2, rope_theta=100),
    "qwen3 llama3": SIZES | dict(rope_scaling="llama3", rope_factor=8, rope_original_positions=8, rope_theta=100),
    "llama linear": SIZES | dict(rope_scaling="linear", rope_factor=2.5), "qwen2 windows": SIZES | dict(sliding_window=3),
    "ministral": SIZES | dict(sliding_window=3, layer_types="sliding_attention,full_attention", head_dim=8),
    "ministral3": SIZES | dict(head_dim=8),
    "ministral3 growth": SIZES | dict(head_dim=8, rope_scaling="yarn", rope_factor=4, rope_original_positions=4, rope_theta=100,
                                      llama_4_scaling_beta=0.5),
    "phi3": SIZES | dict(hidden_size=32, partial_rotary_factor=0.75, sliding_window=3),
    "phi3 longrope": SIZES | dict(hidden_size=32, partial_rotary_factor=0.5, rope_scaling="longrope", rope_factor=4,
                                  rope_original_positions=4, rope_short_factors="1,1.5", rope_long_factors="2,4",
                                  rope_attention_factor=1.3),
    "olmo": SIZES | dict(clip_qkv=0.1), "olmo2": SIZES,
    "olmo3": SIZES | dict(sliding_window=3, layer_types="sliding_attention,full_attention", rope_local_base_freq=50, rope_theta=100),
    "glm4": SIZES | dict(head_dim=8), "exaone4": SIZES | dict(sliding_window=3, layer_types="sliding_attention,full_attention"),
    "exaone4 full": SIZES, "ernie4_5": SIZES | dict(use_bias="true"), "seed_oss": SIZES | dict(attention_out_bias="true", mlp_bias="true"),
    "gemma2": SIZES | dict(sliding_window=3, layer_types="sliding_attention,full_attention", attn_logit_softcapping=0),
    "gemma3": SIZES | dict(sliding_window=3, layer_types="sliding_attention,full_attention", rope_theta=100,
                           rope_local_base_freq=50, rope_scaling="linear", rope_factor=4),
    "gemma4": SIZES | dict(num_hidden_layers=4, layer_types="sliding_attention,full_attention,sliding_attention,full_attention", sliding_window=3,
                           global_head_dim=8, num_global_key_value_heads=1, attention_k_eq_v="true", num_kv_shared_layers=2, use_double_wide_mlp="true",
                           hidden_size_per_layer_input=6, num_experts=4, moe_intermediate_size=8),
    "gemma4 plain": SIZES | dict(hidden_size_per_layer_input=0, rope_scaling="none"),
    "granite": SIZES | dict(embedding_multiplier=3, residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2),
    "starcoder2": SIZES | dict(sliding_window=3), "stablelm": SIZES | dict(hidden_size=32, use_parallel_residual="true"),
    "cohere": SIZES | dict(use_qk_norm="true", logit_scale=0.5),
    "cohere2": SIZES | dict(sliding_window=3, layer_types="sliding_attention,full_attention"),
    "qwen3_next": SIZES | dict(head_dim=8, partial_rotary_factor=0.5, num_experts=4, moe_intermediate_size=8, shared_expert_intermediate_size=12,
                               layer_types="linear_attention,full_attention"),
    "qwen3_5": SIZES | dict(head_dim=8, partial_rotary_factor=0.5, layer_types="linear_attention,full_attention"),
    "qwen3_5_moe": SIZES | dict(head_dim=8, partial_rotary_factor=0.5, num_experts=4, moe_intermediate_size=8,
                                shared_expert_intermediate_size=12, layer_types="linear_attention,full_attention"),
    "deepseek_v2": SIZES | dict(num_key_value_heads=4, num_experts=4, moe_intermediate_size=8, kv_lora_rank=8, q_lora_rank=0, qk_nope_head_dim=8,
                                qk_rope_head_dim=4, v_head_dim=8, limits_groups="true", n_group=2, topk_group=1),
    "bamba": SIZES | MAMBA | dict(layer_types="linear_attention,full_attention"),
    "granitemoehybrid": SIZES | MAMBA | dict(layer_types="linear_attention,full_attention", num_experts=4, shared_intermediate_size=12, embedding_multiplier=3),
    "granitemoehybrid dense": SIZES | MAMBA | dict(layer_types="linear_attention,full_attention", num_experts=0, rotates="true"),
    "falcon_h1": SIZES | MAMBA | dict(mamba_rms_norm="true", key_multiplier=0.5, ssm_multipliers="2,1,1,1,0.5", mlp_multipliers="2,0.5"),
    "nemotron_h": SIZES | MAMBA | dict(head_dim=8, num_hidden_layers=4, num_experts=4, moe_intermediate_size=8, moe_shared_expert_intermediate_size=12),
    "mamba2": MAMBA | dict(vocab_size=61, hidden_size=16, num_hidden_layers=2),
    "gpt2": dict(vocab_size=61, n_positions=64, n_embd=16, n_layer=2, n_head=2),
}
# Weights rounded to bf16 change the logits by so much; the gated delta rule amplifies more than attention does.
LOSSY = {"qwen3_next": 0.3, "gemma4": 0.3, "qwen3_5": 0.3, "qwen3_5_moe": 0.3, "granitemoehybrid_dense": 0.2}


def run(tools, *words):
    done = subprocess.run([str(tools / words[0]), *map(str, words[1:])], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
    return done.stdout


def genesis_logits(tools, file, folder):
    save_file({"tokens": torch.tensor([PROMPT])}, folder / "in.safetensors")
    run(tools, "genesis-run", "infer", file, "--input", folder / "in.safetensors", "-o", folder / "out.safetensors")
    return load_file(folder / "out.safetensors")["logits"].float()


def torch_logits(folder, dtype=torch.float32):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    with torch.no_grad():
        return model(torch.tensor([PROMPT])).logits.float()


def compare(what, a, b, most):
    worst = float(((a - b).abs() / (1 + b.abs())).max())
    print(f"{what:45} {worst:.1e}")
    if not worst <= most:
        sys.exit(f"{what}: more than {most}")


def check_import(tools, source, folder):
    file = folder / f"{source.name}.genesis"
    run(tools, "genesis-build", source, "-o", file)
    stored = json.loads((source / "config.json").read_text())["dtype"]
    for how in ([], ["--shard-size", "8KB"], ["--dtype", "f32"], ["--dtype", "bf16"]):
        out = folder / "-".join([source.name, *how]).replace("--", "")
        run(tools, "genesis-run", "export", file, "-o", out, *how)
        config = json.loads((out / "config.json").read_text())
        lossless = "bf16" not in how or stored == "bfloat16"
        compare(f"{out.name} against its checkpoint", torch_logits(out), torch_logits(source),
                0 if lossless else LOSSY.get(source.name, 0.1))
        if not how or "--shard-size" in how:
            assert config == json.loads((source / "config.json").read_text()), out
            run(tools, "genesis-build", out, "-o", folder / "again.genesis")
            assert (folder / "again.genesis").read_bytes() == file.read_bytes(), out


def check_zoo(tools, name, settings, folder):
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    name = name.replace(" ", "-")
    run(tools, "genesis-build", name.split("-")[0], *words, "--set", "initializer_range=0.3", "--seed", 3, "-o", folder / f"zoo-{name}.genesis")
    run(tools, "genesis-run", "export", folder / f"zoo-{name}.genesis", "-o", folder / f"zoo-{name}")
    ours = genesis_logits(tools, folder / f"zoo-{name}.genesis", folder)
    compare(f"{name} of the zoo against genesis-run", torch_logits(folder / f"zoo-{name}"), ours, 1e-5)


def main():
    logging.disable_progress_bar()
    tools = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(path.parent for path in HERE.glob("*/config.json") if not path.parent.name.endswith("_vl")):
            check_import(tools, source, Path(folder))
        for name, settings in ZOO.items():
            check_zoo(tools, name, settings, Path(folder))
    print("all agree")


if __name__ == "__main__":
    main()
