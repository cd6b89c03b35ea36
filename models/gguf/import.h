// A GGUF file (llama.cpp) with a GPT-2, Llama, Qwen2 or Qwen3 as a model of the zoo.
#pragma once

#include <filesystem>
#include <memory>

#include "models/zoo.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::gguf {

// By its first bytes, or by the name's end, so that a damaged file is told what is wrong with it.
bool is_gguf_file(const std::filesystem::path& path);

// `path` may be the first of several parts (schema/file/foreign/gguf_split.h). `changes` are settings of the zoo that stand
// over those of the file, such as {"dtype", "f32"} or {"cache_positions", "32768"}. Read are weights in F32, F16, BF16, Q4_0,
// Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS. They become the dtype of `changes`, or the one that most of them
// have; quantized ones become bf16, each number rounded once, and the log says so. What is stored in that dtype stays in the
// mapped file until the model is saved. One Error lists all that is not supported, another all tensors that are missing,
// unexpected or of another shape.
// The model brings the file's tokenizer, chat template and sampling settings (sampling.h). A tokenizer that cannot be expressed
// costs a warning, unless `has_other_tokenizer`: then the caller attaches another, and this one is not read.
// `files` gets the files that weights are views into (SaveOptions::links).
std::unique_ptr<Model> import_model(const std::filesystem::path& path, const Settings& changes = {},
                                    MappedFiles* files = nullptr, bool has_other_tokenizer = false);

}  // namespace genesis::models::gguf
