// Imports an ONNX model (.onnx): operators of the versions 1 to 28, as far as the tables of operators.h go. The file is
// not trusted: sizes, nesting, recursion and paths of external data have limits.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/file/io/mapped_file.h"
#include "schema/file/other_formats/onnx/model_file.h"
#include "schema/graph/model.h"

namespace genesis::models::onnx {

// ImportOptions fix what a file leaves open.
struct ImportOptions {
  std::map<std::string, Dim> sizes =
      {};  // values of named sizes: {"batch", 1}, {"height", 32 * Dim::symbol("h")}
  std::map<std::string, Shape> shapes = {};   // shapes of inputs
  std::map<std::string, Tensor> values = {};  // inputs that become constants, such as the sizes of a reshape
  std::set<std::string> absent = {};          // optional inputs that have no value
  std::map<std::string, std::vector<TensorType>> sequences = {};  // the elements of inputs that are sequences
  // The most steps of loops that collect values and whose steps depend on data, by the names of their nodes; a node without a name has that of
  // its first output. A loop that is unrolled does not use its limit; one that collects nothing must have none.
  std::map<std::string, int64_t> steps = {};
};

// Returns true if the file is named like an ONNX model.
bool is_onnx_file(const std::filesystem::path& path);

// Returns a model with the entry point `forward`, whose inputs and outputs have the file's names; element i of a sequence `s` is
// called `s.i`. Initializers of reals become parameters under their names, other constants stay constants. Weights stay in the mapped
// files until the model is saved; `files` receives these (SaveOptions::links). Inputs and outputs whose element type is no DType
// are held as tensor_data.h says, and the metadata names them: "onnx_type.NAME" is "u16".
//
// Throws Error naming the path: one that lists all operators that are not read, with their nodes, or one that names a node; it is a
// NeedsValue if sizes depend on data (call.h).
std::unique_ptr<Model> import_model(const std::filesystem::path& path, MappedFiles* files = nullptr,
                                    const ImportOptions& options = {});

// The same for a file that was read. `folder` contains its external data; an empty path allows none.
std::unique_ptr<Model> import_file(const OnnxFile& file, const std::filesystem::path& folder,
                                   MappedFiles* files = nullptr, const ImportOptions& options = {});

// Returns a model whose entry point `forward` has the inputs of the file and nothing else, for tools that make inputs. Inputs that are
// sequences or texts are left out.
std::unique_ptr<Model> signature_of(const OnnxFile& file, const ImportOptions& options = {});

}  // namespace genesis::models::onnx
