#!/usr/bin/env python3
"""Makes the GGUF files of models beside this file with the package gguf, from the checkpoints in ../hugging_face.

    python3 tests/models/gguf/make_gguf.py      needs torch, transformers, accelerate and gguf

transformers also opens each model file, and must compute the same from it as from the checkpoint.
"""
import json
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).parent
SOURCES = HERE.parent / "hugging_face"
PROMPT = [5, 1, 36, 0, 7, 60, 22, 9]
MODELS = {"llama": ("llama_bf16", gguf.MODEL_ARCH.LLAMA), "qwen2": ("qwen2_tied", gguf.MODEL_ARCH.QWEN2),
          "qwen3": ("qwen3", gguf.MODEL_ARCH.QWEN3), "gpt2": ("gpt2", gguf.MODEL_ARCH.GPT2)}


def in_pairs(weight, heads):
    """Reorders rows for llama.cpp, which rotates adjacent pairs: row 2i of a head is i, row 2i + 1 is i + half."""
    half = weight.shape[0] // heads // 2
    return np.ascontiguousarray(weight.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(weight.shape))


def add_settings(writer, config, name):
    writer.add_context_length(config.get("max_position_embeddings") or config["n_positions"])
    writer.add_embedding_length(config.get("hidden_size") or config["n_embd"])
    writer.add_block_count(config.get("num_hidden_layers") or config["n_layer"])
    writer.add_head_count(config.get("num_attention_heads") or config["n_head"])
    writer.add_feed_forward_length(config.get("intermediate_size") or 4 * config["n_embd"])
    if name == "gpt2":
        return writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])


def add_weight(writer, name, tensor, config, arch, key):
    weight = tensor.to(torch.float32).numpy()
    if key == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        weight = np.ascontiguousarray(weight.T)
    if key == "llama" and name.endswith("q_proj.weight"):
        weight = in_pairs(weight, config["num_attention_heads"])
    if key == "llama" and name.endswith("k_proj.weight"):
        weight = in_pairs(weight, config["num_key_value_heads"])
    new = gguf.get_tensor_name_map(arch, config.get("num_hidden_layers") or config["n_layer"]).get_name(name, (".weight", ".bias"))
    if tensor.dtype == torch.bfloat16 and weight.ndim > 1:
        writer.add_tensor(new, gguf.quantize(weight, Type.BF16), raw_dtype=Type.BF16)
    else:
        writer.add_tensor(new, weight)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_model(key, source, arch):
    config = json.loads((SOURCES / source / "config.json").read_text())
    writer = gguf.GGUFWriter(HERE / f"{key}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    add_settings(writer, config, key)
    for name, tensor in load_file(SOURCES / source / "model.safetensors").items():
        add_weight(writer, name, tensor, config, arch, key)
    finish(writer)


def check_with_transformers(key, source):
    def logits(model):
        with torch.no_grad():
            return model.eval()(torch.tensor([PROMPT])).logits
    try:
        config = AutoConfig.from_pretrained(SOURCES / source)  # from a GGUF file it would take the vocabulary size of
                                                               # a tokenizer
        opened = AutoModelForCausalLM.from_pretrained(HERE, gguf_file=f"{key}.gguf", config=config, dtype=torch.float32)
    except Exception as problem:  # some families need a tokenizer
        return print(f"{key}: transformers does not open it: {type(problem).__name__}: {str(problem)[:200]}")
    expected = logits(AutoModelForCausalLM.from_pretrained(SOURCES / source, dtype=torch.float32))
    print(key, "transformers differs by", float((logits(opened) - expected).abs().max()))


def main():
    for key, (source, arch) in MODELS.items():
        make_model(key, source, arch)
        check_with_transformers(key, source)


if __name__ == "__main__":
    main()
