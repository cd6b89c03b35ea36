// A folder as transformers' save_pretrained() leaves it (config.json, safetensors) as a model of the zoo.
#pragma once

#include <filesystem>
#include <memory>

#include "models/zoo.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::hugging_face {

bool is_model_folder(const std::filesystem::path& path);

// The longest text, prompt and answer, that the KV cache of an imported model holds where `changes` does not say: all that
// the model can read would take gigabytes.
constexpr int64_t kDefaultPositions = 4096;

// `changes` are settings of the zoo that stand over those of the configuration, such as {"dtype", "f32"} or
// {"max_position_embeddings", "32768"}. Weights stay in the mapped files until the model is saved; the tokenizer's files
// are attached to the model (models/tokenizer/model_files.h). One Error lists all
// that is not supported, another all tensors that are missing, unexpected or of another shape.
//
// `files` gets the files that weights are views into: with them as SaveOptions::links, they stay there for good.
std::unique_ptr<Model> import_model(const std::filesystem::path& folder, const Settings& changes = {},
                                    MappedFiles* files = nullptr);

}  // namespace genesis::models::hugging_face
