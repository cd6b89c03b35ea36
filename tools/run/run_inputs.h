// Inputs of entry points from the command line: NAME=FILE.npy, NAME=FILE.safetensors, a .safetensors with all
// of them, NAME=random, NAME=zeros, NAME=full:VALUE; sizes of symbols by --size batch=8.
#pragma once

#include <string>
#include <vector>

#include "executor/inputs.h"
#include "schema/ranks/mesh.h"
#include "tools/common/tool.h"

namespace genesis::tools {

struct InputFlags {
  std::vector<std::string> inputs, sizes;
  uint64_t seed = 0;
  const Option* seed_option = nullptr;

  void add_to(Command& app);
  // Inputs that are not named are random (scalars 0) and `invented`; symbols that no file decides and no
  // --size gives are 1.
  NamedTensors make(const Graph& graph, std::vector<std::string>* invented = nullptr) const;
  // The same for one of several ranks: --size is of all together, and each makes its part. What a file holds is one rank's.
  NamedTensors make_of_rank(const Graph& graph, const Mesh& mesh) const;
};

}  // namespace genesis::tools
