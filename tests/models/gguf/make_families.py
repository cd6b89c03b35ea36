#!/usr/bin/env python3
"""Makes families/: GGUF files of the families beside those of make_gguf.py, with the package gguf, and the logits of transformers.

    python3 tests/models/gguf/make_families.py            needs torch, transformers and gguf
    python3 tests/models/gguf/make_families.py mixtral    makes these alone, and leaves what there is of the others

A file comes from the checkpoint in ../hugging_face with its name, whose matrices are rounded to bf16. Metadata and changes of values are those
of llama.cpp's converter (conversion/*.py there), written out here: what it does for all models in base_settings(), the rest in FAMILIES.
Where a file cannot say a setting of a checkpoint, the model has the one that llama.cpp takes. expected.json has the logits of the last token.
"""
import json
import math
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from transformers import AutoConfig, AutoModelForCausalLM, SmolLM3Config

HERE = Path(__file__).parent
SOURCES = HERE.parent / "hugging_face"
sys.path.insert(0, str(SOURCES))
from make_checkpoints import LONG, NO_PADDING, PROMPT, ROPE  # noqa: E402

ARCH = gguf.MODEL_ARCH


def base_settings(w, config, rope):
    """What TextModel.set_gguf_parameters() writes; `rope` are the parameters of layers without a window."""
    w.add_block_count(config["num_hidden_layers"])
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    kinds = config.get("layer_types") or []
    w.add_head_count_kv([config["num_key_value_heads"] if kind == "full_attention" else 0 for kind in kinds]
                        if "linear_attention" in kinds else config["num_key_value_heads"])
    kind = rope.get("rope_type")
    if kind in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for key, add in (("attention_factor", w.add_rope_scaling_yarn_attn_factor), ("beta_fast", w.add_rope_scaling_yarn_beta_fast),
                         ("beta_slow", w.add_rope_scaling_yarn_beta_slow)):
            if rope.get(key) is not None:
                add(rope[key])
    w.add_rope_freq_base(rope["rope_theta"])
    if (local := config["rope_parameters"].get("sliding_attention")) is not None:
        w.add_float32(f"{w.arch}.rope.freq_base_swa", local["rope_theta"])
    if config.get("rms_norm_eps") is not None:
        w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    for key in ("layer_norm_eps", "norm_epsilon"):
        if config.get(key) is not None:
            w.add_layer_norm_eps(config[key])
    if config.get("head_dim") is not None:
        w.add_key_length(config["head_dim"])
        w.add_value_length(config["head_dim"])


def rotary(w, config, part=1.0):
    w.add_rope_dimension_count(int((config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]) * part))


def llama(w, config):
    w.add_vocab_size(config["vocab_size"])
    rotary(w, config)


def ministral3(w, config):
    llama(w, config)
    w.add_rope_scaling_yarn_log_mul(config["rope_parameters"]["mscale_all_dim"])
    w.add_attn_temperature_scale(config["rope_parameters"]["llama_4_scaling_beta"])


def phi3(w, config):
    rope = config["rope_parameters"]
    trained = rope["original_max_position_embeddings"]
    w.add_rope_scaling_orig_ctx_len(trained)
    rotary(w, config, rope["partial_rotary_factor"])
    w.add_sliding_window(config["sliding_window"])
    w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(config["max_position_embeddings"] / trained) / math.log(trained)))
    w.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], np.float32))
    w.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))


def olmo(w, config):
    w.add_layer_norm_eps(1e-5)
    w.add_clamp_kqv(config["clip_qkv"])


def pattern(w, config):
    w.add_sliding_window(config["sliding_window"])
    w.add_array(f"{w.arch}.attention.sliding_window_pattern", [kind == "sliding_attention" for kind in config["layer_types"]])


def exaone4(w, config):
    w.add_vocab_size(config["vocab_size"])
    pattern(w, config)


def glm4(w, config):
    rotary(w, config, config["rope_parameters"]["partial_rotary_factor"])


def gemma2(w, config):
    w.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    w.add_final_logit_softcapping(config["final_logit_softcapping"])
    w.add_sliding_window(config["sliding_window"])


def gemma3(w, config):
    w.add_final_logit_softcapping(config["final_logit_softcapping"])
    w.add_sliding_window(config["sliding_window"])
    w.add_uint32(f"{w.arch}.attention.sliding_window_pattern", 2)


def granite(w, config):
    llama(w, config)
    w.add_attention_scale(config["attention_multiplier"])
    w.add_embedding_scale(config["embedding_multiplier"])
    w.add_residual_scale(config["residual_multiplier"])
    w.add_logit_scale(config["logits_scaling"])


def stablelm(w, config):
    rotary(w, config, config["rope_parameters"]["partial_rotary_factor"])
    w.add_parallel_residual(config["use_parallel_residual"])


def cohere(w, config):
    w.add_logit_scale(config["logit_scale"])
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def cohere2(w, config):
    pattern(w, config)
    w.add_vocab_size(config["vocab_size"])
    rotary(w, config)
    cohere(w, config)


def nothing(w, config):
    pass


def experts(w, config):
    w.add_expert_count(config.get("num_local_experts") or config["num_experts"])
    w.add_expert_used_count(config["num_experts_per_tok"])


def mixtral(w, config):
    llama(w, config)
    experts(w, config)


def qwen3_moe(w, config):
    experts(w, config)
    w.add_expert_feed_forward_length(config["moe_intermediate_size"])


def qwen2_moe(w, config):
    qwen3_moe(w, config)
    w.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])


def gpt_oss(w, config):
    experts(w, config)
    w.add_sliding_window(config["sliding_window"])
    w.add_expert_feed_forward_length(config["intermediate_size"])


def mamba(w, config):
    w.add_ssm_conv_kernel(config["mamba_d_conv"])
    w.add_ssm_state_size(config["mamba_d_state"])
    w.add_ssm_group_count(config["mamba_n_groups"])
    w.add_ssm_inner_size(config["mamba_n_heads"] * config["mamba_d_head"])
    w.add_ssm_time_step_rank(config["mamba_n_heads"])


def granitemoehybrid(w, config):
    granite(w, config)
    mamba(w, config)
    w.add_rope_scaling_finetuned(config["position_embedding_type"] == "rope")
    w.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    if config["num_local_experts"]:
        experts(w, config)


def falcon_h1(w, config):
    w.add_vocab_size(config["vocab_size"])
    mamba(w, config)


PAIRS, FROM_ONE = "rows of q and k in pairs", "norms are 1 + w"
# By name: the architecture, what is written beside base_settings(), changed values, and settings that differ from the checkpoint's.
FAMILIES = {
    "ministral3": (ARCH.MISTRAL3, ministral3, PAIRS, {}),
    "phi3": (ARCH.PHI3, phi3, None, {}),
    "olmo": (ARCH.OLMO, olmo, PAIRS, {}),
    "olmo2": (ARCH.OLMO2, nothing, None, {}),
    "olmo3": (ARCH.OLMO2, pattern, None, {"local_theta": 100.0}),  # llama.cpp takes one base for all layers
    "glm4": (ARCH.GLM4, glm4, None, {}),
    "exaone4": (ARCH.EXAONE4, exaone4, None, {}),
    "ernie4_5": (ARCH.ERNIE4_5, nothing, None, {}),
    "seed_oss": (ARCH.SEED_OSS, nothing, None, {}),
    "gemma2": (ARCH.GEMMA2, gemma2, FROM_ONE, {"query_pre_attn_scalar": 8, "tie_word_embeddings": True}),
    "gemma3": (ARCH.GEMMA3, gemma3, FROM_ONE, {"query_pre_attn_scalar": 8}),
    "granite": (ARCH.GRANITE, granite, PAIRS, {}),
    "starcoder2": (ARCH.STARCODER2, nothing, None, {"sliding_window": None}),
    "stablelm": (ARCH.STABLELM, stablelm, None, {}),
    "stablelm_parallel": (ARCH.STABLELM, stablelm, None, {}),
    "cohere": (ARCH.COMMAND_R, cohere, None, {}),
    "cohere2": (ARCH.COHERE2, cohere2, None, {}),
    "smollm3": (ARCH.SMOLLM3, llama, PAIRS, {}),
    "mixtral": (ARCH.LLAMA, mixtral, PAIRS, {}),
    "qwen3_moe": (ARCH.QWEN3MOE, qwen3_moe, None, {"decoder_sparse_step": 1}),  # files have experts in all layers
    "olmoe": (ARCH.OLMOE, experts, None, {}),
    "qwen2_moe": (ARCH.QWEN2MOE, qwen2_moe, None, {"mlp_only_layers": []}),
    "gpt_oss": (ARCH.GPT_OSS, gpt_oss, None, {"swiglu_limit": 7.0}),
    "granitemoehybrid": (ARCH.GRANITE_HYBRID, granitemoehybrid, PAIRS, {}),
    "falcon_h1": (ARCH.FALCON_H1, falcon_h1, None, {}),
    "falcon_h1_normed": (ARCH.FALCON_H1, falcon_h1, None, {"mamba_norm_before_gate": False}),
}


def in_pairs(weight, heads):
    """Reorders rows for llama.cpp, which rotates adjacent pairs: row 2i of a head is i, row 2i + 1 is i + half."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def changed(name, weight, change, config):
    if change == PAIRS and name.endswith("q_proj.weight"):
        return in_pairs(weight, config["num_attention_heads"])
    if change == PAIRS and name.endswith("k_proj.weight"):
        return in_pairs(weight, config["num_key_value_heads"])
    return weight + 1 if change == FROM_ONE and name.endswith("norm.weight") else weight


def add_experts(w, name, weight, in_turns):
    """Adds gate and up, or down, of all experts; those of gpt-oss are the other way around, gate and up in turns."""
    kind = "bias" if name.endswith("bias") else "weight"
    if in_turns:
        weight = weight.swapaxes(1, 2) if kind == "weight" else weight
        gate, up = weight[:, ::2], weight[:, 1::2]
    else:
        gate, up = weight[:, :weight.shape[1] // 2], weight[:, weight.shape[1] // 2:]
    for part, matrices in ({"gate": gate, "up": up} if "gate_up" in name else {"down": weight}).items():
        new, data = f"blk.{name.split('.')[2]}.ffn_{part}_exps.{kind}", np.ascontiguousarray(matrices)
        if kind == "bias":
            w.add_tensor(new, data)
        else:
            w.add_tensor(new, gguf.quantize(data, Type.BF16), raw_dtype=Type.BF16)


def scaled(name, weight, config):
    """Multiplies a weight of Falcon-H1 with the multipliers of what it reads and gives."""
    if name.endswith("mamba.in_proj.weight"):
        features, keys = config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
        sizes = torch.tensor([features, features, keys, keys, config["mamba_n_heads"]])
        parts = torch.repeat_interleave(torch.tensor(config["ssm_multipliers"]), sizes)
        return weight * config["ssm_in_multiplier"] * parts[:, None]
    factors = {"down_proj": config["mlp_multipliers"][1], "gate_proj": config["mlp_multipliers"][0],
               "k_proj": config["key_multiplier"] * config["attention_in_multiplier"], "q_proj": config["attention_in_multiplier"],
               "v_proj": config["attention_in_multiplier"], "o_proj": config["attention_out_multiplier"],
               "mamba.out_proj": config["ssm_out_multiplier"], "lm_head": config["lm_head_multiplier"],
               "embed_tokens": config["embedding_multiplier"]}
    for part, factor in factors.items():
        if name.endswith(f"{part}.weight"):
            return weight * factor
    return weight


def of_mamba(name, weight, config):
    """Returns the name and the value that the converter gives a tensor of Mamba2."""
    if name.endswith(".A_log"):
        return name, -torch.exp(weight)[:, None]
    if name.endswith(".D"):
        return name, weight[:, None]
    if name.endswith("mamba.norm.weight"):
        return name, weight.reshape(config["mamba_n_groups"], -1)
    return name.replace(".dt_bias", ".dt_proj.bias"), weight.squeeze(1) if name.endswith("conv1d.weight") else weight


def parts_of(name, weight):
    """Separates the shared MLP of Granite 4; the names are those after conversion."""
    if "shared_mlp.input_linear" in name:
        gate, up = weight.chunk(2)
        block = f"blk.{name.split('.')[2]}.ffn_"
        return {f"{block}gate_shexp.weight": gate, f"{block}up_shexp.weight": up}
    return {name.replace("router.weight", "router.layer.weight"): weight}


def add_weights(w, model, config, arch, change):
    names = gguf.get_tensor_name_map(arch, config["num_hidden_layers"])
    states = dict(pair for name, weight in model.state_dict().items() for pair in parts_of(name, weight).items())
    for name, tensor in states.items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        if ".mamba." in name:
            name, tensor = of_mamba(name, tensor, config)
        if arch == ARCH.FALCON_H1:
            tensor = scaled(name, tensor, config)
        weight = changed(name, tensor, change, config).contiguous().numpy()
        if ".experts." in name:
            add_experts(w, name, weight, arch == ARCH.GPT_OSS)
            continue
        new = name if name.startswith("blk.") else names.get_name(name, (".weight", ".bias")) + (".weight" if name.endswith("sinks") else "")
        if weight.ndim > 1 and "norm" not in name and "ssm_" not in new.replace("ssm_in", "").replace("ssm_out", "") and arch != ARCH.FALCON_H1:
            w.add_tensor(new, gguf.quantize(weight, Type.BF16), raw_dtype=Type.BF16)
        else:
            w.add_tensor(new, weight)


def open_checkpoint(name, settings):
    if name == "smollm3":
        torch.manual_seed(3)
        config = SmolLM3Config(**dict(NO_PADDING, num_hidden_layers=4), rope_parameters=ROPE)
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for key, weight in model.named_parameters():
                weight.copy_(torch.randn_like(weight) * 0.3 + (1 if "norm" in key else 0))
        return model
    config = AutoConfig.from_pretrained(SOURCES / name)
    for key, value in settings.items():
        if key == "local_theta":
            config.rope_parameters["sliding_attention"]["rope_theta"] = value
        else:
            setattr(config, key, value)
    model = AutoModelForCausalLM.from_pretrained(SOURCES / name, config=config, dtype=torch.float32).eval()
    if config.tie_word_embeddings:  # also where the checkpoint has a head
        model.lm_head.weight = model.get_input_embeddings().weight
    return model


@torch.no_grad()
def make(name, arch, settings_of, change, settings):
    torch.manual_seed(5)  # weights that a setting adds
    model = open_checkpoint(name, settings)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(weight.to(torch.bfloat16))
    config = model.config.to_dict()
    w = gguf.GGUFWriter(HERE / "families" / f"{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    base_settings(w, config, config["rope_parameters"].get("full_attention", config["rope_parameters"]))
    settings_of(w, config)
    add_weights(w, model, config, arch, change)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return {key: [round(float(x), 8) for x in model(torch.tensor([text])).logits[0, -1]] for key, text in (("logits", PROMPT), ("long_logits", LONG))}


def main():
    (HERE / "families").mkdir(exist_ok=True)
    names = sys.argv[1:]
    expected = json.loads((HERE / "families" / "expected.json").read_text()) if names else {}
    expected |= {name: make(name, *FAMILIES[name]) for name in names or FAMILIES}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in expected.items())
    (HERE / "families" / "expected.json").write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    main()
