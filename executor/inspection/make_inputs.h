// Makes inputs of an entry point from short texts, for a first run, a benchmark or a comparison: NAME=FILE.npy,
// NAME=FILE.safetensors, a .safetensors with all of them, NAME=random, NAME=zeros, NAME=full:VALUE.
#pragma once

#include <string>
#include <vector>

#include "executor/inputs.h"
#include "schema/graph/model.h"
#include "schema/ranks/mesh.h"

namespace genesis {

struct InputRequest {
  std::vector<std::string> inputs = {};
  Bindings sizes = {};      // sizes of symbols that no file gives
  uint64_t seed = 0;        // seed of random inputs
  NamedTensors given = {};  // inputs that the caller has made
};

struct MadeInputs {
  NamedTensors tensors;
  std::vector<std::string> invented;  // names of the inputs that were not requested
  bool used_seed = false;             // some input is random
};

// Returns all inputs. Those that are not requested are random: real numbers are uniform in [0, 1), integers are 0 or 1; scalars
// are 0. A symbol without a size from a file or a request is 1. Throws SettingError for a malformed request, and Error for
// files that cannot be read, sizes that contradict each other, and inputs that this machine has no memory for.
MadeInputs make_inputs(const Graph& graph, const InputRequest& request);

// Writes tensors to a file that can be an input: a .safetensors with all of them, or a .npy with the only one. Throws Error for
// a .npy with several.
void write_outputs(const NamedTensors& outputs, const std::string& path);

// Parses sizes, each SYMBOL=SIZE. Throws SettingError for others, and for a symbol that comes twice.
Bindings parse_sizes(const std::vector<std::string>& sizes);
// Throws Error naming a size that no entry point of the model has.
void check_sizes_exist(const Model& model, const Bindings& sizes);
// Throws Error naming the symbols in the entry point's inputs that have no size yet, and the flag that sets one.
void check_sizes_known(const Graph& entry, const Bindings& sizes);

}  // namespace genesis
