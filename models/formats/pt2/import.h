// Imports what torch.export.save() wrote (.pt2), without Python: an archive of stored entries that has the program as JSON and the
// weights as raw bytes. Nothing in it is executed, and pickles are not read. Source of the format: the
// modules torch._export.serde.schema (schema 8) and torch.export.pt2_archive of PyTorch 2.10 and later.
#pragma once

#include <filesystem>
#include <memory>

#include "schema/file/io/mapped_file.h"
#include "schema/graph/model.h"

namespace genesis::models::pt2 {

// Returns true if the file is named like an exported program.
bool is_pt2_file(const std::filesystem::path& path);

// Returns a model with the entry point `forward`, whose inputs have the program's own names. Its outputs have the names of the
// dictionary that the program returns, or `output`, or `output.0`, `output.1` and so on. Parameters and buffers keep their names;
// buffers that the program changes are updated. A symbolic size is called after the input and the axis where it first occurs:
// `x_dim0`. Weights stay in the mapped file until the model is saved; `files` receives it (SaveOptions::links).
//
// The types of all values are compared with those in the file. Throws Error naming the path: one that lists all operators that are
// not read, or one that names the call.
std::unique_ptr<Model> import_model(const std::filesystem::path& path, MappedFiles* files = nullptr);

}  // namespace genesis::models::pt2
