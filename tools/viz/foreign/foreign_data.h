// Files of other programs as a page shows them, as far as they can be: `Model` of tools/viz/page/data.d.ts.
#pragma once

#include <filesystem>

#include "tools/viz/data/tables.h"
#include "tools/viz/foreign/onnx_file.h"

namespace genesis::viz {

// By the end of its name.
bool is_foreign(const std::filesystem::path& path);

// An .onnx, a .safetensors or a .gguf file. Throws Error naming the path.
Json foreign_data(const std::filesystem::path& path, Tables& tables);

// The graph as columns; its initializers and constants as tensors. (onnx_data.cpp)
Json onnx_data(const OnnxFile& file, Tables& tables);

// Rows of `Tensors`.
struct TensorColumns {
  std::vector<int32_t> name, type;
  std::vector<int64_t> bytes;
  Json json() const { return {{"name", deltas(name)}, {"type", type}, {"bytes", bytes}}; }
};
Json no_states();

}  // namespace genesis::viz
