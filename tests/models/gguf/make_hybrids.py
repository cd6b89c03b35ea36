#!/usr/bin/env python3
"""Makes the files in families/ that llama.cpp's own converter writes: hybrids, latent attention and newer mixtures of experts.

    python3 tests/models/gguf/make_hybrids.py LLAMA_CPP [NAME ...]           needs torch, transformers and the sources of llama.cpp
    python3 tests/models/gguf/make_hybrids.py LLAMA_CPP --library FOLDER     also reads each file with the library in the folder

A file comes from the checkpoint in ../hugging_face with its name, whose matrices are rounded to bf16, with the settings that the
converter or llama.cpp cannot express replaced. families/expected.json gets the logits of transformers after two texts. --library
writes the same model in f32, reads it with libllama and prints how far its logits are from those of transformers, and whether it
chooses the same 32 tokens.
"""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).parent
SOURCES = HERE.parent / "hugging_face"
FILES = HERE / "families"
sys.path.insert(0, str(SOURCES))
from make_checkpoints import LONG, PROMPT  # noqa: E402

# Settings that differ from the checkpoint's: llama.cpp knows no biases and no MLPs beside experts in these models, rotates whole heads
# of Bamba, and takes both multipliers of YaRN for equal.
YARN = {"rope_parameters": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
                            "mscale": 0.5, "mscale_all_dim": 0.5}}
FAMILIES = {
    "mamba2": {},
    "granitemoehybrid_bamba": {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 1.0}},
    "nemotron_h": {"layers_block_type": ["linear_attention", "moe", "full_attention", "moe", "linear_attention"]},
    "nemotron_h_latent": {"use_bias": False},
    "qwen3_next": {},
    "qwen3_5": {},
    "qwen3_5_moe": {},
    "gemma4": {"tie_word_embeddings": True},
    "gemma4_experts": {"tie_word_embeddings": True},
    "deepseek_v2": YARN,
    "deepseek_v3": {"num_nextn_predict_layers": 0, **YARN},
    "glm4_moe": {"num_nextn_predict_layers": 0},
    "minimax_m2": {},
    "lfm2": {"conv_bias": False},
}
CHECKPOINTS = {"granitemoehybrid_bamba": "bamba"}  # the other files have the names of their checkpoints
# Entries that the converter reads and that transformers does not write.
EXTRA = {"minimax_m2": {"rotary_dim": 4, "scoring_func": "sigmoid"}, "granitemoehybrid_bamba": {"attn_rotary_emb": 4},
         "deepseek_v3": {"scoring_func": "sigmoid"}}


# libllama knows keys and values of one size in the gated delta rule, and sections of positions (of pictures) need a place in a head; it
# reads models with random weights instead.
SECTIONS = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}
FOR_LIBRARY = {"qwen3_next": {"linear_key_head_dim": 4}, "qwen3_5": {"linear_key_head_dim": 4, "rope_parameters": SECTIONS},
               "qwen3_5_moe": {"linear_key_head_dim": 4, "rope_parameters": SECTIONS}}


@torch.no_grad()
def random_model(name):
    config = AutoConfig.from_pretrained(SOURCES / name)
    for key, value in FOR_LIBRARY[name].items():
        setattr(config, key, value)
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for key, weight in model.named_parameters():
        weight.copy_((torch.randn_like(weight) * 0.3 + (1 if key.endswith("linear_attn.norm.weight") else 0)).to(torch.bfloat16))
    return model


def open_checkpoint(name):
    config = AutoConfig.from_pretrained(SOURCES / CHECKPOINTS.get(name, name))
    for key, value in FAMILIES[name].items():
        setattr(config, key, value)
    torch.manual_seed(5)  # weights that a setting adds
    model = AutoModelForCausalLM.from_pretrained(SOURCES / CHECKPOINTS.get(name, name), config=config, dtype=torch.float32, ignore_mismatched_sizes=True).eval()
    with torch.no_grad():
        if config.tie_word_embeddings:
            model.lm_head.weight = model.get_input_embeddings().weight
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.copy_(weight.to(torch.bfloat16))
    return model


def convert(llama_cpp, name, model, path, bf16):
    """Runs the converter of llama.cpp, which needs a tokenizer and gets none."""
    import gguf
    from conversion import get_model_class

    name_of_file = name
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((Path(folder) / "config.json").read_text()) | EXTRA.get(name, {})
        if name.startswith("nemotron_h"):
            config["mamba_d_head"] = config["mamba_head_dim"]  # the converter takes 64 without
        (Path(folder) / "config.json").write_text(json.dumps(config))
        (Path(folder) / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(config["vocab_size"])}}, "added_tokens": []}))
        kind = get_model_class(model.config.architectures[0])

        class WithoutTokenizer(kind):
            model_arch = kind.model_arch

            def set_vocab(self):
                self._set_vocab_none()
                if not any(f"{self.gguf_writer.arch}.vocab_size" in part for part in self.gguf_writer.kv_data):
                    self.gguf_writer.add_vocab_size(config["vocab_size"])

            def modify_tensors(self, data_torch, name, bid):
                for new, data in super().modify_tensors(data_torch, name, bid):
                    # llama-quantize leaves out axes of size 1 in front; one of the files has them so.
                    yield new, data.squeeze(0) if name_of_file == "qwen3_5_moe" and "inp_shexp" in new else data

            def set_gguf_parameters(self):
                super().set_gguf_parameters()
                if "max_position_embeddings" in config:  # not 2^20 as for hybrids, whose caches would be large
                    self.gguf_writer.add_context_length(config["max_position_embeddings"])

        if hasattr(kind, "no_mtp"):
            WithoutTokenizer.no_mtp = True
        kind_of_file = gguf.LlamaFileType.MOSTLY_BF16 if bf16 else gguf.LlamaFileType.ALL_F32
        with torch.inference_mode():
            WithoutTokenizer(Path(folder), kind_of_file, path, eager=True).write()


@torch.no_grad()
def logits_of(model, tokens):
    return model(torch.tensor([tokens]), use_cache=False).logits[0, -1]


def read_with_library(folder, path, texts, count):
    """Returns the logits after each text, and the tokens that libllama chooses behind the first."""
    import ctypes
    os.environ["LLAMA_CPP_LIB_PATH"] = str(folder)
    import llama_cpp
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, None)
    settings = llama_cpp.llama_model_default_params()
    settings.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), settings)
    if not model:
        raise RuntimeError("libllama does not open the file")
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def run(text, more):
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_threads, options.n_threads_batch = 128, 1, 1
        options.type_k = options.type_v = options.flash_attn_type = 0  # attention in f32
        context = llama_cpp.llama_init_from_model(model, options)
        given, chosen, logits = list(text), [], None
        for _ in range(more + 1):
            tokens = (llama_cpp.llama_token * len(given))(*given)
            if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(given))):
                raise RuntimeError("llama_decode failed")
            last = torch.tensor(ctypes.cast(llama_cpp.llama_get_logits_ith(context, -1), ctypes.POINTER(ctypes.c_float))[:size])
            logits = last if logits is None else logits
            given = [int(last.argmax())]
            chosen += given
        llama_cpp.llama_free(context)
        return logits, chosen[:more]

    return [run(text, 0)[0] for text in texts], run(texts[0], count)[1]


def check_library(flags, name, model):
    model = random_model(name) if name in FOR_LIBRARY else model
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.gguf"
        convert(flags.llama_cpp, name, model, path, False)
        found, chosen = read_with_library(flags.library, path, [PROMPT, LONG], 32)
    text = list(PROMPT)
    for _ in range(32):
        text.append(int(logits_of(model, text).argmax()))
    apart = [float((own - logits_of(model, tokens)).abs().max()) for own, tokens in zip(found, (PROMPT, LONG))]
    print(f"{name}: libllama is {apart[0]:.1e} and {apart[1]:.1e} away, {'the same' if chosen == text[len(PROMPT):] else 'other'} tokens", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=Path, help="the sources of llama.cpp")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--library", type=Path, help="the folder with libllama.so; needs the package llama_cpp")
    flags = parser.parse_args()
    sys.path[:0] = [str(flags.llama_cpp), str(flags.llama_cpp / "gguf-py")]
    expected = json.loads((FILES / "expected.json").read_text())
    for name in flags.names or FAMILIES:
        print(name, flush=True)
        model = open_checkpoint(name)
        convert(flags.llama_cpp, name, model, FILES / f"{name}.gguf", True)
        expected[name] = {key: [round(float(x), 8) for x in logits_of(model, text)] for key, text in (("logits", PROMPT), ("long_logits", LONG))}
        if flags.library:
            if (child := os.fork()) == 0:  # libllama ends the process where a model breaks its assumptions
                check_library(flags, name, model)
                os._exit(0)
            if status := os.waitpid(child, 0)[1]:
                print(f"{name}: libllama ended with {status}", flush=True)
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in expected.items())
    (FILES / "expected.json").write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    main()
