// Writes trained values back into the ONNX file that a model came from: the same graph, other weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::models::onnx {

struct Patched {
  int64_t replaced = 0;                // weights of the file that got the values of states
  std::vector<std::string> untouched;  // parameters of the model that the file does not have, sorted
};

// Copies the file `original` to `path` with the values of the model's parameters and buffers in the initializers and the Constant nodes of the main
// graph that have their names and shapes. They keep their element types: values are rounded to these. External data of the original is taken into
// the new file. Throws Error naming the path for a file that cannot be read, for a weight of another shape, if no weight has the name of a state, and
// if the new file would have 2 GiB or more.
Patched patch_weights(const Model& model, const std::filesystem::path& original,
                      const std::filesystem::path& path);

}  // namespace genesis::models::onnx
