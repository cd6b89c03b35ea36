// A folder as transformers' save_pretrained() leaves it (config.json, safetensors) as a model of the zoo.
#pragma once

#include <filesystem>
#include <memory>

#include "models/zoo.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::hugging_face {

bool is_model_folder(const std::filesystem::path& path);

// Positions of an imported model's KV cache where `changes` does not say: for all that the model can read it would take gigabytes.
// Tools make it longer where a text needs it (models::with_room).
constexpr int64_t kDefaultPositions = 4096;
// Says so in `settings`, which have the longest text that the model can read as max_position_embeddings, if at all.
void limit_cache(Settings& settings, const Settings& changes);

// Tensors that the model has no place for are treated as extra_tensors.h says; `ignored` are patterns of names that are left out.
//
// `changes` are settings of the zoo that stand over those of the configuration, such as {"dtype", "f32"} or
// {"cache_positions", "32768"}. Weights stay in the mapped files until the model is saved; the tokenizer's files
// are attached to the model (models/tokenizer/model_files.h). One Error lists all
// that is not supported, another all tensors that are missing, unexpected or of another shape.
//
// `files` gets the files that weights are views into: with them as SaveOptions::links, they stay there for good.
std::unique_ptr<Model> import_model(const std::filesystem::path& folder, const Settings& changes = {},
                                    MappedFiles* files = nullptr,
                                    const std::vector<std::string>& ignored = {});

}  // namespace genesis::models::hugging_face
