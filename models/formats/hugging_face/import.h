// Imports a folder written by transformers' save_pretrained() (config.json, safetensors) as a model of the zoo.
#pragma once

#include <filesystem>
#include <memory>

#include "models/formats/hugging_face/quantized_weights.h"
#include "models/zoo.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::hugging_face {

bool is_model_folder(const std::filesystem::path& path);

// Default length of an imported model's KV cache: a cache for the longest text that the model can read would take gigabytes.
// Tools lengthen it if a text needs it (models::with_room).
constexpr int64_t kDefaultPositions = 4096;
// Imports a model. `changes` are settings of the zoo that override those of the configuration, such as {"dtype", "f32"} or
// {"cache_positions", "32768"}. Weights stay in the mapped files until the model is saved; the tokenizer's files are attached to
// the model (models/tokenizer/model_files.h). One Error lists everything that is not supported, another all tensors that are
// missing, unexpected or of another shape. Tensors that the model has no state for are treated as extra_tensors.h says; `ignored`
// are patterns of names to leave out. Quantized weights are read by the methods in quantized/methods.h, and what became of them is
// logged.
//
// `files` receives the files that weights are views into: with them as SaveOptions::links, a saved model refers to them.
std::unique_ptr<Model> import_model(const std::filesystem::path& folder, const Settings& changes = {},
                                    MappedFiles* files = nullptr,
                                    const std::vector<std::string>& ignored = {},
                                    Quantized quantized = Quantized::kKept);

}  // namespace genesis::models::hugging_face
