#!/usr/bin/env python3
"""Makes the small checkpoints beside this file with transformers, and expected.json with their results by transformers.

    python3 tests/models/hugging_face/make_checkpoints.py              needs torch and transformers
    python3 tests/models/hugging_face/make_checkpoints.py glm4 phi3    makes these alone, and leaves what there is of the others

Weights are random. Logits are those of the last position of one prompt, in f32, and `greedy` are the tokens after it. `losses` are those
of ten steps of AdamW on other texts; a model that reads images too has none. `balance` and `z` are losses of routers. Models with scaled rotations or sliding-window attention also have `long_logits` and `long_greedy`, for a text longer than their training
length. `rope` has the frequencies that transformers computes for configurations of every kind.
"""
import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import (AutoModelForCausalLM, AutoModelForImageTextToText, Cohere2Config, CohereConfig, Ernie4_5Config, Exaone4Config, Gemma2Config,
                          Gemma3TextConfig, Gemma4TextConfig, Glm4Config, GPT2Config, GraniteConfig, Lfm2Config, LlamaConfig, Ministral3Config, MinistralConfig,
                          Olmo2Config, Olmo3Config, OlmoConfig, Phi3Config, Qwen2_5_VLConfig, Qwen2Config, Qwen3Config, Qwen3VLConfig, SeedOssConfig,
                          StableLmConfig, Starcoder2Config, DeepseekV2Config, DeepseekV3Config, Glm4MoeConfig, GptOssConfig, MiniMaxM2Config, MixtralConfig, OlmoeConfig, Qwen2MoeConfig, Qwen3MoeConfig, Qwen3NextConfig,
                          BambaConfig, FalconH1Config, GraniteMoeHybridConfig, Mamba2Config, NemotronHConfig, Qwen3_5MoeTextConfig, Qwen3_5TextConfig)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = Path(__file__).parent
PROMPT = [5, 1, 36, 0, 7, 60, 22, 9]
LONG = [(7 * i * i + 3 * i + 5) % 61 for i in range(45)]
DECODER = dict(vocab_size=61, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None)

# Has one layer, and heads with enough pairs to distinguish the kinds of scaling.
SCALED = dict(DECODER, num_hidden_layers=1, head_dim=16)


def scaled(rope_type, **parameters):
    return dict(parameters, rope_type=rope_type, rope_theta=parameters.get("rope_theta", 100.0))


MODELS = {
    "qwen2_tied": (Qwen2Config(**DECODER, tie_word_embeddings=True, rope_theta=1e6), {}),
    "qwen2_sharded": (Qwen2Config(**DECODER, tie_word_embeddings=False, rms_norm_eps=1e-5), {"max_shard_size": "10KB"}),
    "qwen3": (Qwen3Config(**DECODER, head_dim=8, tie_word_embeddings=True), {}),
    "llama_bf16": (LlamaConfig(**DECODER, tie_word_embeddings=False), {"dtype": torch.bfloat16}),
    "gpt2": (GPT2Config(vocab_size=61, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None), {}),
    "gpt2_untied": (GPT2Config(vocab_size=61, n_positions=64, n_embd=8, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None,
                               tie_word_embeddings=False), {}),
    "llama_llama3": (LlamaConfig(**SCALED, rope_parameters=scaled(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)), {}),
    "qwen2_yarn": (Qwen2Config(**SCALED, tie_word_embeddings=True, rope_parameters=scaled(
        "yarn", factor=4.0, original_max_position_embeddings=16)), {}),
    "llama_linear": (LlamaConfig(**SCALED, tie_word_embeddings=True, rope_parameters=scaled("linear", factor=4.0)), {}),
    "llama_dynamic": (LlamaConfig(**dict(SCALED, max_position_embeddings=16),
                                  rope_parameters=scaled("dynamic", factor=2.0)), {}),
    "qwen2_sliding": (Qwen2Config(**DECODER, use_sliding_window=True, sliding_window=5,
                                  layer_types=["full_attention", "sliding_attention"]), {}),
}

# Families of which every feature shows in the logits. Norms have weights near 1.
NO_PADDING = dict(DECODER, pad_token_id=None)
WIDE = dict(NO_PADDING, num_attention_heads=2, num_key_value_heads=1)  # heads of 8 for classes without head_dim
WINDOWS = dict(NO_PADDING, sliding_window=5, layer_types=["sliding_attention", "full_attention"])
ROPE = {"rope_theta": 100.0, "rope_type": "default"}
SLIDING = "sliding_attention"


def by_layer(full, local_theta):
    return {"full_attention": full, "sliding_attention": dict(ROPE, rope_theta=local_theta)}


MAMBA = dict(mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=6, mamba_d_head=8, mamba_chunk_size=4)
HYBRID = dict(NO_PADDING, num_hidden_layers=3)
KINDS = ["linear_attention", "full_attention", "linear_attention"]

# Models that read images too, of which the text part is compared.
SECTIONS = dict(ROPE, mrope_section=[2, 1, 1])
TEXT = dict(DECODER, rope_parameters=SECTIONS)
TOWER = dict(depth=1, hidden_size=8, num_heads=2, intermediate_size=8, patch_size=2, out_hidden_size=16)

FAMILIES = {
    "qwen2_5_vl": Qwen2_5_VLConfig(text_config=dict(TEXT, num_attention_heads=2, num_key_value_heads=1),
                                   vision_config=TOWER, tie_word_embeddings=True),
    "qwen3_vl": Qwen3VLConfig(text_config=dict(TEXT, head_dim=8), tie_word_embeddings=False, vision_config=dict(
        TOWER, num_position_embeddings=4, deepstack_visual_indexes=[])),
    "ministral": MinistralConfig(**dict(WINDOWS, head_dim=8, layer_types=["full_attention", "sliding_attention"])),
    "ministral3": Ministral3Config(**NO_PADDING, head_dim=8, rope_parameters=scaled(
        "yarn", factor=4.0, original_max_position_embeddings=4, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.5)),
    "phi3": Phi3Config(**WIDE, sliding_window=7, original_max_position_embeddings=16, rope_parameters=scaled(
        "longrope", short_factor=[1.0, 1.2, 1.5], long_factor=[1.5, 3.0, 6.0], partial_rotary_factor=0.75)),
    "olmo": OlmoConfig(**NO_PADDING, clip_qkv=0.4, rope_parameters=ROPE),
    "olmo2": Olmo2Config(**NO_PADDING, rope_parameters=ROPE),
    "olmo3": Olmo3Config(**WINDOWS, rope_parameters=by_layer(
        scaled("yarn", factor=4.0, original_max_position_embeddings=16), 50.0)),
    "glm4": Glm4Config(**NO_PADDING, head_dim=8, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "exaone4": Exaone4Config(**WINDOWS, rope_parameters=ROPE),
    "ernie4_5": Ernie4_5Config(**NO_PADDING, head_dim=8, use_bias=True, rope_parameters=ROPE),
    "seed_oss": SeedOssConfig(**NO_PADDING, head_dim=8, attention_out_bias=True, mlp_bias=True, rope_parameters=ROPE),
    "gemma2": Gemma2Config(**WINDOWS, tie_word_embeddings=False, head_dim=8, query_pre_attn_scalar=12, attn_logit_softcapping=1.5,
                           final_logit_softcapping=2.0, rope_parameters=ROPE),
    "gemma3": Gemma3TextConfig(**WINDOWS, head_dim=8, query_pre_attn_scalar=12, final_logit_softcapping=3.0,
                               rope_parameters=by_layer(scaled("linear", factor=8.0), 10.0)),
    "gemma4": Gemma4TextConfig(tie_word_embeddings=False, **dict(WINDOWS, num_hidden_layers=5, layer_types=[SLIDING, SLIDING, "full_attention", SLIDING, "full_attention"]),
                               head_dim=4, global_head_dim=8, hidden_size_per_layer_input=6, vocab_size_per_layer_input=61, num_kv_shared_layers=2,
                               use_double_wide_mlp=True, final_logit_softcapping=3.0, rope_parameters=by_layer(
                                   scaled("proportional", partial_rotary_factor=0.5), 10.0)),
    "gemma4_experts": Gemma4TextConfig(**WINDOWS, tie_word_embeddings=False, head_dim=8, global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True,
                                       hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=8,
                                       rope_parameters=by_layer(scaled("proportional", partial_rotary_factor=0.25), 10.0)),
    "granite": GraniteConfig(**NO_PADDING, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.3,
                             logits_scaling=2.0, rope_parameters=ROPE),
    "starcoder2": Starcoder2Config(**NO_PADDING, tie_word_embeddings=False, sliding_window=5, rope_parameters=ROPE),
    "stablelm": StableLmConfig(**WIDE, use_qkv_bias=True, rope_parameters=dict(ROPE, partial_rotary_factor=0.25)),
    "stablelm_parallel": StableLmConfig(**WIDE, use_parallel_residual=True,
                                        rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "cohere": CohereConfig(**NO_PADDING, logit_scale=0.25, use_qk_norm=True, rope_parameters=ROPE),
    "lfm2": Lfm2Config(**dict(NO_PADDING, num_hidden_layers=3), layer_types=["conv", "full_attention", "conv"], conv_bias=True,
                       block_multiple_of=4, rope_parameters=ROPE),
    "mixtral": MixtralConfig(**NO_PADDING, num_local_experts=4, rope_parameters=ROPE),
    "qwen2_moe": Qwen2MoeConfig(**NO_PADDING, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8,
                                shared_expert_intermediate_size=12, mlp_only_layers=[0], rope_parameters=ROPE),
    "qwen3_moe": Qwen3MoeConfig(**NO_PADDING, head_dim=8, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=8,
                                norm_topk_prob=True, decoder_sparse_step=2, rope_parameters=ROPE),
    "qwen3_next": Qwen3NextConfig(**dict(NO_PADDING, num_hidden_layers=3), head_dim=8, num_experts=4, num_experts_per_tok=2,
                                  moe_intermediate_size=8, shared_expert_intermediate_size=12, linear_key_head_dim=6,
                                  linear_value_head_dim=4, linear_num_key_heads=2, linear_num_value_heads=4,
                                  layer_types=["linear_attention", "full_attention", "linear_attention"],
                                  rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "qwen3_5": Qwen3_5TextConfig(**dict(NO_PADDING, num_hidden_layers=3), head_dim=8, linear_key_head_dim=6, linear_value_head_dim=4,
                                 linear_num_key_heads=2, linear_num_value_heads=4, tie_word_embeddings=True,
                                 layer_types=["linear_attention", "full_attention", "linear_attention"],
                                 rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "qwen3_5_moe": Qwen3_5MoeTextConfig(**{k: v for k, v in NO_PADDING.items() if k != "intermediate_size"}, head_dim=8, num_experts=4,
                                        num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=12,
                                        linear_key_head_dim=6, linear_value_head_dim=4, linear_num_key_heads=2, linear_num_value_heads=4,
                                        layer_types=["linear_attention", "full_attention"],
                                        rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "olmoe": OlmoeConfig(**NO_PADDING, num_experts=4, num_experts_per_tok=2, rope_parameters=ROPE),
    "glm4_moe": Glm4MoeConfig(**NO_PADDING, head_dim=8, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=8, n_group=3,
                              topk_group=2, routed_scaling_factor=1.5, use_qk_norm=True, attention_bias=True, n_shared_experts=2,
                              rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "minimax_m2": MiniMaxM2Config(**NO_PADDING, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
                                  rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "gpt_oss": GptOssConfig(**WINDOWS, head_dim=8, num_local_experts=4, num_experts_per_tok=2, swiglu_limit=0.5,
                            rope_parameters=scaled("yarn", factor=4.0, original_max_position_embeddings=16, truncate=False)),
    "deepseek_v2": DeepseekV2Config(**dict(NO_PADDING, num_key_value_heads=4), n_routed_experts=6, num_experts_per_tok=2,
                                    moe_intermediate_size=8, n_group=3, topk_group=2, topk_method="group_limited_greedy",
                                    first_k_dense_replace=1, n_shared_experts=2, routed_scaling_factor=1.5, q_lora_rank=8, kv_lora_rank=12,
                                    qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6, rope_parameters=scaled(
                                        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=0.5)),
    "deepseek_v3": DeepseekV3Config(**dict(NO_PADDING, num_key_value_heads=4), n_routed_experts=6, num_experts_per_tok=2,
                                    moe_intermediate_size=8, n_group=3, topk_group=2, first_k_dense_replace=1, q_lora_rank=8, kv_lora_rank=12,
                                    qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6, rope_parameters=scaled(
                                        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=0.5)),
    "deepseek_v3_one_query": DeepseekV3Config(**dict(NO_PADDING, num_key_value_heads=4), n_routed_experts=4, num_experts_per_tok=2,
                                              moe_intermediate_size=8, n_group=1, topk_group=1, first_k_dense_replace=0, q_lora_rank=None,
                                              kv_lora_rank=12, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8,
                                              rope_interleave=False, rope_parameters=ROPE),
    "bamba": BambaConfig(**HYBRID, **MAMBA, attn_layer_indices=[1], rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "granitemoehybrid": GraniteMoeHybridConfig(**HYBRID, **MAMBA, layer_types=KINDS, num_local_experts=4, shared_intermediate_size=12,
                                       embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2.0),
    "granitemoehybrid_dense": GraniteMoeHybridConfig(**HYBRID, **MAMBA, layer_types=KINDS, num_local_experts=0, shared_intermediate_size=20, router_aux_loss_coef=0.0,
                                             position_embedding_type="rope", mamba_proj_bias=True, mamba_conv_bias=False, rope_parameters=ROPE),
    "falcon_h1": FalconH1Config(**dict(HYBRID, num_hidden_layers=2), **MAMBA, mamba_d_ssm=32, rope_parameters=ROPE, embedding_multiplier=3.0,
                                lm_head_multiplier=0.5, key_multiplier=0.7, attention_in_multiplier=1.2, attention_out_multiplier=0.8,
                                ssm_in_multiplier=1.25, ssm_out_multiplier=0.75, ssm_multipliers=[1.5, 0.5, 0.8, 1.2, 0.6],
                                mlp_multipliers=[1.5, 0.5]),
    "falcon_h1_normed": FalconH1Config(**dict(HYBRID, num_hidden_layers=1), **MAMBA, mamba_d_ssm=32, mamba_rms_norm=True, rope_parameters=ROPE),
    "mamba2": Mamba2Config(vocab_size=61, hidden_size=16, num_heads=4, head_dim=8, state_size=6, num_hidden_layers=2, n_groups=2, chunk_size=4,
                           bos_token_id=None, eos_token_id=None, pad_token_id=None),
    "nemotron_h": NemotronHConfig(**{name: value for name, value in NO_PADDING.items() if name != "num_hidden_layers"}, head_dim=8,
                                  layers_block_type=["linear_attention", "moe", "full_attention", "mlp", "linear_attention"], ssm_state_size=6,
                                  mamba_num_heads=4, mamba_head_dim=8, n_groups=2, chunk_size=4, n_routed_experts=6, n_group=3, topk_group=2,
                                  moe_intermediate_size=8, moe_shared_expert_intermediate_size=10, routed_scaling_factor=1.5),
    "nemotron_h_latent": NemotronHConfig(**{name: value for name, value in NO_PADDING.items() if name != "num_hidden_layers"}, head_dim=8,
                                         layers_block_type=["linear_attention", "moe", "full_attention"], ssm_state_size=6, mamba_num_heads=4, mamba_head_dim=8,
                                         n_groups=1, chunk_size=4, n_routed_experts=4, moe_intermediate_size=8, use_bias=True,
                                         moe_shared_expert_intermediate_size=10, moe_latent_size=12),
    "cohere2": Cohere2Config(**WINDOWS, logit_scale=0.25, rope_parameters=ROPE),
}

# For a Llama with heads of 32 and 4096 positions.
ROPES = [
    scaled("linear", factor=2.5, rope_theta=1e4),
    scaled("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=512,
           rope_theta=5e5),
    scaled("yarn", factor=4.0, original_max_position_embeddings=1024, rope_theta=1e6),
    scaled("yarn", factor=3.0, original_max_position_embeddings=1024, truncate=False, beta_fast=16.0, beta_slow=2.0),
    scaled("yarn", factor=40.0, original_max_position_embeddings=128, mscale=0.707, mscale_all_dim=1.3),
    scaled("yarn", factor=4.0, original_max_position_embeddings=1024, attention_factor=0.75),
    scaled("yarn", factor=None, original_max_position_embeddings=1024),
    scaled("proportional", partial_rotary_factor=0.25, rope_theta=1e6),
    scaled("proportional", partial_rotary_factor=0.8, factor=8.0),
    dict(scaled("dynamic", factor=4.0, rope_theta=1e4), length=1),
    dict(scaled("dynamic", factor=4.0, rope_theta=1e4), length=10000),
]


def make(name, config, options):
    torch.manual_seed(sum(map(ord, name)))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # the usual 0.02 would make attention flat, and biases and norms would have no effect
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + (1 if weight.dim() == 1 and "norm" in name else 0))
    dtype = options.pop("dtype", torch.float32)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(dtype).save_pretrained(folder, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)
    model = model.to(torch.float32)
    count = 12 if config.max_position_embeddings == 64 else 24
    expected = {"logits": last_logits(model, PROMPT), "greedy": greedy(model, PROMPT, count)}
    if is_special(config):
        expected |= {"long_logits": last_logits(model, LONG), "long_greedy": greedy(model, LONG, 16)}
    return expected | {"losses": losses(folder)}


def make_family(name, config):
    torch.manual_seed(sum(map(ord, name)))
    loader = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    model = loader.from_config(config).eval()
    from_one = name in ("gemma2", "gemma3", "qwen3_next", "qwen3_5", "qwen3_5_moe")
    with torch.no_grad():
        for key, weight in model.named_parameters():
            is_near_one = "norm" in key and key.endswith(".weight") and not from_one or key.endswith("scale")
            weight.copy_(torch.randn_like(weight) * 0.3 + (1 if is_near_one else 0))
        for key, buffer in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                buffer.copy_(torch.randn_like(buffer) * 0.3)
            if key.endswith("layer_scalar"):
                buffer.copy_(torch.randn_like(buffer) * 0.3 + 1)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    expected = {"logits": last_logits(model, PROMPT), "greedy": greedy(model, PROMPT, 32)}
    if is_special(config) or getattr(config, "sliding_window", None) or hasattr(config, "time_step_limit"):
        expected |= {"long_logits": last_logits(model, LONG), "long_greedy": greedy(model, LONG, 16)}
    if getattr(config, "router_aux_loss_coef", None):
        expected |= router_losses(model)
    return expected if hasattr(config, "vision_config") else expected | {"losses": losses(folder)} | (
        {"learning_rate": LEARNING_RATES[name]} if name in LEARNING_RATES else {})


@torch.no_grad()
def router_losses(model):
    """Returns the loss that balances experts, and the one that keeps the router's numbers small, for the first texts of losses()."""
    result = model(texts(0)[:, :-1], output_router_logits=True)
    squares = torch.stack([logits.logsumexp(-1).square().mean() for logits in result.router_logits])
    return {"balance": result.aux_loss.item(), "z": squares.mean().item()}


def texts(step):
    i = torch.arange(2 * 17).reshape(2, 17)
    return (i * 7 + (i // 3) * 5 + step * 11) % 61


# Gated delta models diverge: at 1e-2, transformers' own losses in f32 and f64 part by 0.4% in ten steps, and at 1e-3 by 5e-6.
LEARNING_RATES = {"qwen3_next": 1e-3, "qwen3_5": 1e-4, "qwen3_5_moe": 1e-4, "gemma4": 1e-4} | dict.fromkeys(["bamba", "granitemoehybrid", "granitemoehybrid_dense", "falcon_h1", "falcon_h1_normed", "mamba2", "nemotron_h",
                                                       "nemotron_h_latent"], 1e-3)


def losses(folder):
    """Trains the model, and returns the loss before each step. The model is a new one, because some know how long their texts were."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATES.get(folder.name, 1e-2), eps=1e-4, weight_decay=0.1)
    curve = []
    for step in range(10):
        ids = texts(step)
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve


@torch.no_grad()
def last_logits(model, tokens):
    return [float(x) for x in model(torch.tensor([tokens])).logits[0, -1]]


@torch.no_grad()
def greedy(model, prompt, count):
    tokens = list(prompt)
    if model.config.model_type == "bamba":  # with its cache, transformers 5.24 decodes another text than from the whole one
        for _ in range(count):
            tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        return tokens[len(prompt):]
    step = model(torch.tensor([tokens]), use_cache=True)
    takes_cache = "cache" in step  # the newer name; some classes pass over the older one without a word
    for _ in range(count):
        tokens.append(int(step.logits[0, -1].argmax()))
        cache = {"cache": step["cache"]} if takes_cache else {"past_key_values": step.past_key_values}
        step = model(torch.tensor([tokens[-1:]]), **cache, use_cache=True)
    return tokens[len(prompt):]


def is_special(config):
    parameters = getattr(config, "rope_parameters", None) or {}
    return parameters.get("rope_type", "default") != "default" or getattr(config, "use_sliding_window", False)


def rope(parameters):
    parameters = dict(parameters)
    length = parameters.pop("length", None)
    config = LlamaConfig(hidden_size=64, num_attention_heads=2, num_key_value_heads=2, intermediate_size=64,
                         vocab_size=61, max_position_embeddings=4096, rope_parameters=dict(parameters))
    frequencies, factor = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, seq_len=length)
    return {"parameters": parameters, "length": length or 0, "frequencies": [float(f) for f in frequencies],
            "attention_factor": float(factor)}


def main():
    file = HERE / "expected.json"
    names = sys.argv[1:]
    expected = json.loads(file.read_text()) if names else {
        "prompt": PROMPT, "long": LONG, "models": {}, "rope": [rope(parameters) for parameters in ROPES]}
    for name in names or [*MODELS, *FAMILIES]:
        expected["models"][name] = make(name, *MODELS[name]) if name in MODELS else make_family(name, FAMILIES[name])
    file.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
