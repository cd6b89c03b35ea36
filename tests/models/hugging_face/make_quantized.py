#!/usr/bin/env python3
"""Makes the small quantized checkpoints in quantized/ and the values that other libraries decode them to.

    PYTHONPATH=PACKAGES python3 tests/models/hugging_face/make_quantized.py SOURCES

needs torch, transformers 5.24, compressed-tensors 0.20 and bitsandbytes 0.50 (the CPU build). SOURCES is a folder with the unpacked
auto_gptq 0.7.1 (auto_gptq_whl/) and autoawq 0.2.9 (autoawq-0.2.9/), of which single files are loaded, because the packages do not
install beside a new torch.

Weights are quantized and packed here, by the public descriptions of the formats; `expected.safetensors` has what the library in its
metadata ("decoded by") makes of them, in the dtype in which that library computes. compressed-tensors and bitsandbytes also pack.
"""
import importlib.util
import json
import shutil
import sys
from pathlib import Path

import bitsandbytes.functional as bnb
import compressed_tensors.compressors  # noqa: F401, registers the formats
import numpy as np
import torch
from compressed_tensors.compressors.base import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers import LlamaConfig, Phi3Config
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = Path(__file__).parent / "quantized"
F8 = torch.float8_e4m3fn
SIZES = dict(vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
             num_key_value_heads=2, max_position_embeddings=32, bos_token_id=None, eos_token_id=None, pad_token_id=None)
LLAMA = LlamaConfig(**SIZES, tie_word_embeddings=True)
PHI3 = Phi3Config(**SIZES, tie_word_embeddings=False)
LAYER = "model.layers.0."
MATRICES = {"self_attn.q_proj": (32, 32), "self_attn.k_proj": (32, 32), "self_attn.v_proj": (32, 32), "self_attn.o_proj": (32, 32),
            "mlp.gate_proj": (64, 32), "mlp.up_proj": (64, 32), "mlp.down_proj": (32, 64)}
FUSED = {"self_attn.qkv_proj": (96, 32), "self_attn.o_proj": (32, 32), "mlp.gate_up_proj": (128, 32), "mlp.down_proj": (32, 64)}


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCES = Path(sys.argv[1])
AUTO_GPTQ = loaded(SOURCES / "auto_gptq_whl/auto_gptq/nn_modules/qlinear/qlinear_cuda.py", "qlinear_cuda")
AWQ = loaded(SOURCES / "autoawq-0.2.9/awq/utils/packing_utils.py", "packing_utils")


def plain(dtype, head=False):
    """The weights that no method quantizes."""
    tensors = {"model.embed_tokens.weight": torch.randn(32, 32) * 0.1, "model.norm.weight": torch.ones(32)}
    for norm in ("input_layernorm", "post_attention_layernorm"):
        tensors[f"{LAYER}{norm}.weight"] = torch.ones(32) + torch.randn(32) * 0.1
    if head:
        tensors["lm_head.weight"] = torch.randn(32, 32) * 0.1
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def save(name, config, quantization, parts, expected, by, dtype=torch.bfloat16, head=False):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tensors = dict(plain(dtype, head) if config else {}, **parts)
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors", {"decoded by": by})
    entries = config.to_dict() if config else {}
    if config:
        entries.update(dtype=str(dtype).removeprefix("torch."), architectures=[type(config).__name__.replace("Config", "ForCausalLM")])
    entries["quantization_config"] = quantization
    (folder / "config.json").write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")


def matrices(shapes=None):
    for name, shape in (shapes or MATRICES).items():
        yield LAYER + name, torch.randn(shape) * 0.05


# --- E4M3

def fp8_of(weight, rows, columns):
    """Codes and scales of blocks."""
    blocks = weight.unflatten(0, (-1, rows)).unflatten(2, (-1, columns))
    scales = blocks.abs().amax((1, 3)) / 448
    codes = (blocks / scales[:, None, :, None]).reshape(weight.shape).to(F8)
    return codes, scales


def decode_fp8(codes, scales):
    return Fp8Dequantize._dequantize_one(None, codes, scales, torch.bfloat16)


def make_fp8():
    parts, expected = {}, {}
    for name, weight in matrices():
        codes, scales = fp8_of(weight, 16, 16)
        parts |= {f"{name}.weight": codes, f"{name}.weight_scale_inv": scales}
        expected[f"{name}.weight"] = decode_fp8(codes, scales)
    save("fp8_blocks", LLAMA, {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [16, 16]}, parts, expected,
         "transformers.integrations.finegrained_fp8")
    parts, expected = {}, {}
    for name, weight in matrices():
        codes, scales = fp8_of(weight, *weight.shape)
        scale = scales.reshape(()).to(torch.bfloat16)
        parts |= {f"{name}.weight": codes, f"{name}.weight_scale_inv": scale, f"{name}.activation_scale": scale.clone()}
        expected[f"{name}.weight"] = decode_fp8(codes, scale)
    save("fp8_tensor", LLAMA, {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None,
                               "modules_to_not_convert": ["lm_head"]}, parts, expected, "transformers.integrations.finegrained_fp8")


def make_fbgemm():
    parts, expected = {}, {}
    for name, weight in matrices():
        codes, scales = fp8_of(weight, 1, weight.shape[1])
        parts |= {f"{name}.weight": codes, f"{name}.weight_scale": scales, f"{name}.input_scale_ub": torch.tensor([1200.0])}
        expected[f"{name}.weight"] = codes.float() * scales
    save("fbgemm_fp8", LLAMA, {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]},
         parts, expected, "torch: the codes as float32, times the scales")


def nvfp4_of(weight):
    """Codes as numbers of E2M1, scales of 16 in E4M3, and the divisor of these."""
    groups = weight.unflatten(1, (-1, 16))
    divisor = 448 * 6 / weight.abs().amax()
    scales = (groups.abs().amax(2) / 6 * divisor).to(F8)
    wanted = groups * divisor / scales.float()[..., None].clamp(min=1e-6)
    numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    nearest = (wanted.abs()[..., None] - numbers).abs().argmin(-1)
    return (numbers[nearest] * wanted.sign()).reshape(weight.shape), scales, divisor


def make_modelopt():
    parts, expected = {}, {}
    for name, weight in matrices():
        codes, scales = fp8_of(weight, *weight.shape)
        scale = scales.reshape(())
        parts |= {f"{name}.weight": codes, f"{name}.weight_scale": scale, f"{name}.input_scale": torch.tensor(0.5)}
        expected[f"{name}.weight"] = codes.float() * scale
    parts |= {f"{LAYER}self_attn.k_proj.k_scale": torch.tensor(1.0), f"{LAYER}self_attn.v_proj.v_scale": torch.tensor(1.0)}
    save("modelopt_fp8", LLAMA, {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 8},
                                 "ignore": ["lm_head"]}, parts, expected, "torch: the codes as float32, times the scale")
    parts, expected = {}, {}
    for name, weight in matrices():
        numbers, scales, divisor = nvfp4_of(weight)
        packed = pack_fp4_to_uint8(numbers.to(torch.bfloat16))
        parts |= {f"{name}.weight": packed, f"{name}.weight_scale": scales, f"{name}.weight_scale_2": (1 / divisor).reshape(()),
                  f"{name}.input_scale": torch.tensor(0.5)}
        unpacked = unpack_fp4_from_uint8(packed, *weight.shape, dtype=torch.float32)
        expected[f"{name}.weight"] = unpacked * (scales.float() * (1 / divisor)).repeat_interleave(16, 1)
    save("modelopt_nvfp4", LLAMA, {"quant_method": "modelopt", "quant_algo": "NVFP4", "config_groups": {}, "ignore": ["lm_head"]}, parts,
         expected, "compressed-tensors 0.20 (unpack_fp4_from_uint8), times the scales as float32")


def make_mxfp4():
    rng = np.random.default_rng(3)
    blocks = torch.from_numpy(rng.integers(0, 256, (2, 24, 3, 16), dtype=np.uint8))
    scales = torch.from_numpy(rng.integers(110, 130, (2, 24, 3), dtype=np.uint8))
    name = "model.layers.0.mlp.experts.gate_up_proj"
    save("mxfp4_experts", None, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
         {f"{name}_blocks": blocks, f"{name}_scales": scales}, {name: convert_moe_packed_tensors(blocks, scales)},
         "transformers.integrations.mxfp4")


# --- compressed-tensors

def scales_for(weight, args):
    """Scales and zeros of the strategy, which a calibration would find."""
    least, greatest = weight, weight
    if args.strategy == "tensor":
        least, greatest = weight.amin().reshape(1), weight.amax().reshape(1)
    elif args.strategy == "channel":
        least, greatest = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    elif args.strategy in ("group", "tensor_group"):
        groups = weight.unflatten(1, (-1, args.group_size))
        least, greatest = groups.amin(2), groups.amax(2)
    else:
        blocks = weight.unflatten(0, (-1, args.block_structure[0])).unflatten(2, (-1, args.block_structure[1]))
        least, greatest = blocks.amin((1, 3)), blocks.amax((1, 3))
    most = {("int", 8): 127, ("int", 4): 7, ("int", 3): 3, ("float", 8): 448, ("float", 4): 6}[args.type, args.num_bits]
    if args.symmetric:
        return torch.maximum(-least, greatest) / most, None
    scales = (greatest.clamp(min=0) - least.clamp(max=0)) / (2 * most + 1)
    return scales, (-(most + 1) - least.clamp(max=0) / scales).round().clamp(-most - 1, most)


SCHEMES = {
    "self_attn.q_proj": ("float-quantized", dict(num_bits=8, type="float", strategy="channel")),
    "self_attn.k_proj": ("float-quantized", dict(num_bits=8, type="float", strategy="block", block_structure=[16, 8])),
    "self_attn.v_proj": ("int-quantized", dict(num_bits=8, type="int", strategy="channel", symmetric=False)),
    "self_attn.o_proj": ("nvfp4-pack-quantized", dict(num_bits=4, type="float", strategy="tensor_group", group_size=16)),
    "mlp.gate_proj": ("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=16, symmetric=False)),
    "mlp.up_proj": ("mxfp4-pack-quantized", dict(num_bits=4, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8)),
    "mlp.down_proj": ("pack-quantized", dict(num_bits=3, type="int", strategy="channel")),
}
INTEGERS = {name: ("pack-quantized", dict(num_bits=4, type="int", strategy="group", group_size=32)) for name in MATRICES}
BYTES = {name: ("int-quantized", dict(num_bits=8, type="int", strategy="channel")) for name in MATRICES}


def packed_by_compressed_tensors(weight, form, args):
    state = {"weight": weight}
    scales, zeros = scales_for(weight, args)
    if form == "nvfp4-pack-quantized":
        _, scales, divisor = nvfp4_of(weight)
        scales, state["weight_global_scale"] = scales.float(), divisor.reshape(1)
    elif form == "mxfp4-pack-quantized":
        scales = torch.exp2(torch.floor(torch.log2(scales)) + 1)
    state["weight_scale"] = scales if form == "nvfp4-pack-quantized" else scales.to(torch.bfloat16)
    if zeros is not None:
        state["weight_zero_point"] = zeros.to(torch.int8)
    compressor = BaseCompressor.get_value_from_registry(form)
    packed = compressor.compress(state, QuantizationScheme(targets=["Linear"], weights=args))
    return packed, compressor.decompress(packed, QuantizationScheme(targets=["Linear"], weights=args))["weight"]


def make_compressed(name, schemes):
    parts, expected, groups = {}, {}, {}
    for module, weight in matrices():
        form, settings = schemes[module.removeprefix(LAYER)]
        args = QuantizationArgs(**settings)
        packed, decoded = packed_by_compressed_tensors(weight, form, args)
        parts |= {f"{module}.{key}": value for key, value in packed.items()}
        expected[f"{module}.weight"] = decoded
        groups[f"group_{len(groups)}"] = {"targets": [module], "format": form, "weights": json.loads(args.model_dump_json()),
                                          "input_activations": None, "output_activations": None}
    form = "mixed-precision"
    if schemes is not SCHEMES:  # one for all
        groups = {"group_0": dict(groups["group_0"], targets=["Linear"])}
        form = groups["group_0"]["format"]
    save(name, LLAMA, {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": ["lm_head"],
                       "config_groups": groups, "kv_cache_scheme": None, "sparsity_config": {}, "transform_config": {}},
         parts, expected, "compressed-tensors 0.20")


# --- GPTQ and AWQ

def bits_down(codes, bits):
    """Packs codes [n, m] down each column as one string of bits, as uint32 words [n * bits / 32, m]."""
    codes = codes.astype(np.uint64)
    count = codes.shape[0]
    words = np.zeros((count * bits // 32 + 1, codes.shape[1]), np.uint64)
    for i in range(count):
        at = codes[i] << np.uint64(i * bits % 32)
        words[i * bits // 32] |= at & np.uint64(0xFFFFFFFF)
        words[i * bits // 32 + 1] |= at >> np.uint64(32)
    return torch.from_numpy(words[:count * bits // 32].astype(np.uint32).view(np.int32))


def integers_of(weight, bits, size, symmetric):
    """Codes [in, out], zeros and scales [groups, out] of a weight [out, in]."""
    groups = weight.T.unflatten(0, (-1, size))
    most = 2**bits - 1
    if symmetric:
        scales = groups.abs().amax(1) * 2 / most
        zeros = torch.full_like(scales, 2**(bits - 1))
    else:
        least, greatest = groups.amin(1).clamp(max=0), groups.amax(1).clamp(min=0)
        scales = (greatest - least) / most
        zeros = (-least / scales).round().clamp(1, most)
    scales = scales.half()
    codes = (groups / scales.float()[:, None] + zeros[:, None]).round().clamp(0, most).reshape(weight.T.shape)
    return codes, zeros, scales


def gptq_of(weight, bits, size, symmetric, shuffled, less_one):
    order = torch.randperm(weight.shape[1]) if shuffled else torch.arange(weight.shape[1])
    codes, zeros, scales = integers_of(weight[:, order], bits, size, symmetric)
    index = torch.empty(weight.shape[1], dtype=torch.int32)
    index[order] = (torch.arange(weight.shape[1]) // size).to(torch.int32)
    codes = codes[torch.argsort(order)]
    layer = AUTO_GPTQ.QuantLinear(bits, size, weight.shape[1], weight.shape[0], bias=False)
    layer.qweight = bits_down(codes.numpy(), bits)
    layer.scales, layer.g_idx = scales, index
    stored = {one: bits_down((zeros - one).T.numpy(), bits).T.contiguous() for one in (0, 1)}
    layer.qzeros = stored[1]
    decoded = layer(torch.eye(weight.shape[1], dtype=torch.float16)).T
    return {"qweight": layer.qweight, "qzeros": stored[1 if less_one else 0], "scales": scales, "g_idx": index}, decoded


def make_gptq(name, config, settings_of, extra, shapes=None, symmetric=True, shuffled=False, less_one=True):
    parts, expected = {}, {}
    for module, weight in matrices(shapes):
        bits, size = settings_of(module)
        packed, decoded = gptq_of(weight, bits, size, symmetric, shuffled, less_one)
        parts |= {f"{module}.{key}": value for key, value in packed.items()}
        expected[f"{module}.weight"] = decoded
    save(name, config, dict({"quant_method": "gptq", "sym": symmetric, "desc_act": shuffled, "damp_percent": 0.01}, **extra), parts,
         expected, "auto_gptq 0.7.1 (QuantLinear on an identity matrix)", torch.float16, head=config is PHI3)


def make_awq():
    parts, expected = {}, {}
    for name, weight in matrices():
        codes, zeros, scales = integers_of(weight, 4, 32, False)
        packed = {}
        for key, values in (("qweight", codes), ("qzeros", zeros)):
            nibbles = values.numpy().astype(np.uint32).reshape(values.shape[0], -1, 8)
            words = sum(nibbles[:, :, row] << np.uint32(4 * i) for i, row in enumerate([0, 2, 4, 6, 1, 3, 5, 7]))
            packed[key] = torch.from_numpy(np.ascontiguousarray(words.astype(np.uint32)).view(np.int32))
        parts |= {f"{name}.{key}": value for key, value in dict(packed, scales=scales).items()}
        expected[f"{name}.weight"] = AWQ.dequantize_gemm(packed["qweight"], packed["qzeros"], scales, 4, 32).T
    save("awq", LLAMA, {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm",
                        "modules_to_not_convert": None}, parts, expected, "autoawq 0.2.9 (dequantize_gemm)", torch.float16)


# --- bitsandbytes

def make_bitsandbytes():
    for kind, double, dtype in (("nf4", True, torch.float32), ("fp4", False, torch.bfloat16)):
        parts, expected = {}, {}
        for name, weight in matrices():
            codes, state = bnb.quantize_4bit(weight.to(dtype), quant_type=kind, blocksize=64, compress_statistics=double)
            parts[f"{name}.weight"] = codes
            parts |= {f"{name}.weight.{key}": value for key, value in state.as_dict(packed=True).items()}
            # The CPU build mixes up the blocks of rows that are shorter than a block: decode rows of one block.
            state.shape = torch.Size((weight.numel() // 64, 64))
            expected[f"{name}.weight"] = bnb.dequantize_4bit(codes, state).reshape(weight.shape)
        save(f"bitsandbytes_{kind}", LLAMA, {
            "quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": kind,
            "bnb_4bit_use_double_quant": double, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8"}, parts, expected,
            "bitsandbytes 0.50 on a CPU")
    parts, expected = {}, {}
    for name, weight in matrices():
        codes, scales, _ = bnb.int8_vectorwise_quant(weight.half())
        parts |= {f"{name}.weight": codes, f"{name}.SCB": scales, f"{name}.weight_format": torch.tensor(0, dtype=torch.uint8)}
        expected[f"{name}.weight"] = bnb.int8_vectorwise_dequant(codes, scales)
    save("bitsandbytes_int8", LLAMA, {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0,
                                      "llm_int8_skip_modules": None}, parts, expected, "bitsandbytes 0.50 on a CPU")


if __name__ == "__main__":
    torch.manual_seed(1)
    make_fp8()
    make_fbgemm()
    make_modelopt()
    make_mxfp4()
    make_compressed("compressed_mixed", SCHEMES)
    make_compressed("compressed_int4", INTEGERS)
    make_compressed("compressed_int8", BYTES)
    make_gptq("gptq", LLAMA, lambda module: (4, 32), {"bits": 4, "group_size": 32})
    make_gptq("gptq_phi3", PHI3, lambda module: (4, 32), {"bits": 4, "group_size": 32}, FUSED)
    make_gptq("gptq_act_order", LLAMA, lambda module: (3, 16), {"bits": 3, "group_size": 16}, symmetric=False, shuffled=True)
    make_gptq("gptq_v2", LLAMA, lambda module: (8 if "attn" in module else 2, 16), {
        "bits": 2, "group_size": 16, "checkpoint_format": "gptq_v2", "dynamic": {r"+:.*self_attn.*": {"bits": 8}}}, symmetric=False,
        less_one=False)
    make_awq()
    make_bitsandbytes()
