// Opens a model of any kind that Genesis reads, by the name of its file or folder.
#pragma once

#include <memory>
#include <string>

#include "schema/graph/model.h"

namespace genesis::models {

// Returns the model of a .genesis file, of the newest checkpoint of a folder, of a folder that transformers saved, of a GGUF file,
// of a program of torch.export (.pt2), of an ONNX model, or of "hf:NAME", which hub.h fetches. Throws Error naming the path.
std::unique_ptr<Model> open_any(const std::string& path);

}  // namespace genesis::models
