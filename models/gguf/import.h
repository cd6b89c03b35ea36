// A GGUF file (llama.cpp) with a GPT-2, Llama, Qwen2 or Qwen3 as a model of the zoo.
#pragma once

#include <filesystem>
#include <memory>

#include "models/zoo.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::gguf {

// By its first bytes, or by the name's end, so that a damaged file is told what is wrong with it.
bool is_gguf_file(const std::filesystem::path& path);

// `changes` are settings of the zoo that stand over those of the file, such as {"dtype", "f32"} or
// {"cache_positions", "32768"}. Read are weights in F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K. They become the dtype
// of `changes`, or the one that most of them have; quantised ones become bf16. What is stored in that dtype stays in the
// mapped file until the model is saved. One Error lists all that is not supported, another all tensors that are missing,
// unexpected or of another shape.
// `files` gets the file that weights are views into (SaveOptions::links).
std::unique_ptr<Model> import_model(const std::filesystem::path& path, const Settings& changes = {},
                                    MappedFiles* files = nullptr);

}  // namespace genesis::models::gguf
