// A model of the zoo as a folder that transformers opens: config.json and safetensors, the other way round than import.h.
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
  std::optional<DType> dtype;            // f32, bf16 or f16; empty: as the weights are
  uint64_t shard_bytes = 5'000'000'000;  // a file holds no more, but for a tensor that alone is larger
  bool replace = false;                  // a folder with an older export
  OnProgress progress = {};              // "writing"
};

struct Exported {
  std::string model;                  // "qwen2"
  std::vector<std::string> files;     // names in the folder, sorted
  int64_t parameters = 0, bytes = 0;  // of the weights
  int64_t merged_adapters = 0;        // layers whose LoRA adapters were added to their weights
};

// Writes parameters and buffers, and no state of an optimizer, a cache or random numbers; LoRA adapters are added to the
// weights beside them (adapters alone: adapter.h). The folder is there as a whole or
// not at all: whatever goes wrong, nothing is left beside it. A folder that is there is replaced only where it is empty, or
// with `replace` and when it holds nothing but files of a checkpoint. Throws Error for a model that is none of the zoo, and
// one Error that lists every tensor that is missing, unexpected or of another shape than the architecture has.
Exported export_model(const Model& model, const std::filesystem::path& folder,
                      const ExportOptions& options = {});

}  // namespace genesis::models::hugging_face
