// Lists the tensors that take memory as text for people: in errors and in the output of tools.
#pragma once

#include <string>
#include <vector>

#include "schema/graph/plan.h"
#include "schema/messages/human_bytes.h"

namespace genesis {

// Tensors of similar layers: equal in size, with names that differ only in numbers between dots.
struct FoldedTensors {
  std::string name;  // with several different names: a pattern, "layers.*.mlp.up_proj"
  int64_t count = 0;
  int64_t bytes = 0;  // sum over all of them
};

// Returns the largest first; equally large ones in the given order.
std::vector<FoldedTensors> fold_tensors(const std::vector<PeakTensor>& tensors);

// Returns "layers.*.mlp.up_proj x24", or the name alone for one tensor.
std::string label_of(const FoldedTensors& tensors);

// Returns one line per entry, each after a line break: "\n      1.27 TiB  layers.*.mlp.up_proj x24". Beyond `most` entries, a
// last line gives the number and the bytes of the others.
std::string memory_lines(const std::vector<PeakTensor>& tensors, size_t most = 10);

}  // namespace genesis
