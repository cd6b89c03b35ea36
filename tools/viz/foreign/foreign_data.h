// Files of other programs as a page shows them, as far as they can be: `Model` of tools/viz/page/data.d.ts.
#pragma once

#include <filesystem>

#include "tools/viz/data/tables.h"
#include "tools/viz/foreign/onnx_file.h"

namespace genesis::viz {

// By the end of its name.
bool is_foreign(const std::filesystem::path& path);

// An .onnx or a .safetensors file. Throws Error naming the path.
Json foreign_data(const std::filesystem::path& path, Tables& tables);

// The graph as columns, and its initializers as tensors.
Json onnx_data(const OnnxFile& file, Tables& tables);

}  // namespace genesis::viz
