// Converts files of other programs to the data of a page as far as possible: `Model` of tools/viz/page/data.d.ts.
#pragma once

#include <filesystem>

#include "tools/viz/data/tables.h"
#include "schema/file/other_formats/onnx/model_file.h"

namespace genesis::viz {

// Recognizes such a file by its file ending.
bool is_other_format(const std::filesystem::path& path);

// Converts an .onnx, .safetensors or .gguf file. Throws Error naming the path.
Json other_format_data(const std::filesystem::path& path, Tables& tables);

// Converts the graph to columns, with its initializers and constants as tensors. Defined in onnx_data.cpp.
Json onnx_data(const OnnxFile& file, Tables& tables);

// The columns of `Tensors`.
struct TensorColumns {
  std::vector<int32_t> name, type;
  std::vector<int64_t> bytes;
  Json json() const { return {{"name", deltas(name)}, {"type", type}, {"bytes", bytes}}; }
};
Json no_states();

}  // namespace genesis::viz
