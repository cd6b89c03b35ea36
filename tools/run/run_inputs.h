// Makes inputs of entry points from the command line: NAME=FILE.npy, NAME=FILE.safetensors, a .safetensors with all
// of them, NAME=random, NAME=zeros, NAME=full:VALUE. --size batch=8 gives a symbol its size.
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
  // Returns all inputs. Those that are not named are random (scalars 0) and are added to `invented`. A symbol without
  // a size from a file or --size is 1.
  NamedTensors make(const Graph& graph, std::vector<std::string>* invented = nullptr) const;
  // Does the same for one of several ranks. --size means the size over all ranks, and each makes its shard. A file
  // holds one rank's input.
  NamedTensors make_of_rank(const Graph& graph, const Mesh& mesh) const;
};

}  // namespace genesis::tools
