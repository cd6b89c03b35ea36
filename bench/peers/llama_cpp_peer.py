#!/usr/bin/env python3
"""Times llama.cpp on a GGUF file of random weights, a peer of bench/language/language_model.py: prints {"seconds": ...}.

    python3 bench/peers/llama_cpp_peer.py FILE.gguf --format Q8_0 --shape vocab_size=... [...] --threads 4 (--decode 64 --position 64 | --prefill 512)

The file is made if it does not exist: Qwen2 with a tied head, all matrices in --format, no vocabulary. Prints {"missing": why}
if Python has no gguf or llama_cpp (pip install gguf llama-cpp-python).
"""
import argparse
import json
import os
import sys
import time


CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def matrices(s):
    """Returns the names and shapes [out, in] of a layer's matrices, the sizes of its biases, and the names of its norms."""
    hidden, inner = s["hidden_size"], s["intermediate_size"]
    keys = hidden // s["num_attention_heads"] * s["num_key_value_heads"]
    products = {"attn_q": (hidden, hidden), "attn_k": (keys, hidden), "attn_v": (keys, hidden), "attn_output": (hidden, hidden),
                "ffn_gate": (inner, hidden), "ffn_up": (inner, hidden), "ffn_down": (hidden, inner)}
    return products, {"attn_q": hidden, "attn_k": keys, "attn_v": keys}, ("attn_norm", "ffn_norm")


def write_file(path, format, s):
    import gguf
    import numpy as np
    random, kind = np.random.default_rng(1), gguf.GGMLQuantizationType[format]

    def packed(rows, columns):
        """Returns quantized rows: 1024 rows of random numbers, repeated."""
        block = gguf.quants.quantize(random.normal(0, 0.02, (min(rows, 1024), columns)).astype(np.float32), kind)
        return np.resize(block, (rows, block.shape[1]))

    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(s["max_position_embeddings"])
    writer.add_embedding_length(s["hidden_size"])
    writer.add_block_count(s["num_hidden_layers"])
    writer.add_feed_forward_length(s["intermediate_size"])
    writer.add_head_count(s["num_attention_heads"])
    writer.add_head_count_kv(s["num_key_value_heads"])
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(s["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_tensor("token_embd.weight", packed(s["vocab_size"], s["hidden_size"]), raw_dtype=kind)
    products, biases, norms = matrices(s)
    data = {name: packed(*shape) for name, shape in products.items()}
    for layer in range(s["num_hidden_layers"]):
        for name in products:
            writer.add_tensor(f"blk.{layer}.{name}.weight", data[name], raw_dtype=kind)
        for name, size in biases.items():
            writer.add_tensor(f"blk.{layer}.{name}.bias", np.zeros(size, np.float32))
        for name in norms:
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(s["hidden_size"], np.float32))
    writer.add_tensor("output_norm.weight", np.ones(s["hidden_size"], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Context:
    def __init__(self, path, threads, positions):
        import ctypes
        import llama_cpp
        self.api = llama_cpp
        self.quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = positions
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params) if self.model else None
        if not self.context:
            sys.exit(f"llama.cpp cannot open {path}")

    def read(self, count, clock):
        """Returns the seconds for the next `count` tokens, including the logits of the last."""
        tokens = (self.api.llama_token * count)(*((977 * i + 1) % 1000 for i in range(count)))
        start = clock()
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(tokens, count)) != 0:
            sys.exit("llama_decode failed")
        logits = self.api.llama_get_logits_ith(self.context, -1)
        seconds = clock() - start
        if not logits or logits[0] != logits[0]:
            sys.exit("llama.cpp gave no logits")
        return seconds

    def forget(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--format", required=True)
    parser.add_argument("--shape", nargs="+", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--decode", type=int, default=0)
    parser.add_argument("--position", type=int, default=64)
    parser.add_argument("--prefill", type=int, default=0)
    flags = parser.parse_args()
    try:
        import gguf  # noqa: F401
        import llama_cpp
    except ImportError as error:
        print(json.dumps({"missing": f"skipped, {error}"}))
        return
    if not os.path.exists(flags.file):
        write_file(flags.file, flags.format, {name: int(value) for name, value in (pair.split("=") for pair in flags.shape)})
    # A context as large as our cache would make no difference: attention reads only what is there.
    context = Context(flags.file, flags.threads, max(512, flags.position + flags.decode, flags.prefill))
    clock = CLOCKS[flags.clock]
    if flags.prefill:
        times = []
        for _ in range(4):
            context.forget()
            times.append(context.read(flags.prefill, clock))
    else:
        context.read(flags.position, clock)
        times = [context.read(1, clock) for _ in range(flags.decode)]
    print(json.dumps({"seconds": min(times), "version": llama_cpp.__version__}))


main()
