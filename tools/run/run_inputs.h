// The options that make inputs of entry points (executor/inspection/make_inputs.h). --size batch=8 gives a symbol its size.
#pragma once

#include <string>
#include <vector>

#include "schema/ranks/mesh.h"
#include "tools/common/tool.h"

namespace genesis::tools {

struct InputFlags {
  std::vector<std::string> inputs, sizes;
  std::string image;  // preparation of pictures (--image)
  uint64_t seed = 0;
  const Option* seed_option = nullptr;

  void add_to(Command& app);
  bool names_picture() const;  // some input is read from a JPEG or PNG file
  // Returns all inputs. Those that were not given are added to `invented`. On several ranks --size means the size over all
  // ranks, and each makes its shard; a file holds one rank's input.
  NamedTensors make(const Graph& graph, const Mesh& mesh = {},
                    std::vector<std::string>* invented = nullptr) const;
};

inline constexpr const char* kFasterThanLimits =
    "; faster than the limits that were measured: something else kept this machine busy while they were, or "
    "a cache served what is counted as memory";

// Returns "forward with batch=1, seq=1 (--size batch=N gives others)" and a line feed; empty if there are no symbols.
std::string sizes_line(const std::string& entry, const Bindings& sizes);

}  // namespace genesis::tools
