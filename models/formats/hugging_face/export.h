// Exports a model of the zoo as a folder that transformers opens (config.json and safetensors): the inverse of import.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "schema/graph/model.h"
#include "schema/messages/progress.h"

namespace genesis::models::hugging_face {

struct ExportOptions {
  std::optional<DType> dtype;            // f32, bf16 or f16; empty: the dtype of the weights
  uint64_t shard_bytes = 5'000'000'000;  // limit of a file's size, unless a single tensor is larger
  bool replace = false;                  // replace a folder with an older export
  OnProgress progress = {};              // reports "writing"
};

struct Exported {
  std::string model;                  // "qwen2"
  std::vector<std::string> files;     // names in the folder, sorted
  int64_t parameters = 0, bytes = 0;  // size of the weights
  int64_t merged_adapters = 0;        // number of layers whose LoRA adapters were merged into their weights
};

// Writes parameters and buffers, but no state of an optimizer, a cache or a random generator. LoRA adapters are merged into the
// weights (adapter.h writes them alone). The folder is written completely or not at all, and no temporary files are left behind.
// An existing folder is replaced only if it is empty, or with `replace` if it holds only files of a checkpoint. Throws Error for
// a model that is not of the zoo, and one Error that lists every tensor that is missing, unexpected or of another shape than in
// the architecture.
Exported export_model(const Model& model, const std::filesystem::path& folder,
                      const ExportOptions& options = {});

}  // namespace genesis::models::hugging_face
