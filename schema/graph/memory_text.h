// How the tensors that take memory are listed for people: in errors, and in what tools print.
#pragma once

#include <string>
#include <vector>

#include "schema/graph/plan.h"
#include "schema/messages/human_bytes.h"

namespace genesis {

// Tensors of layers that are alike: of the same size, with names that differ in numbers between dots only.
struct FoldedTensors {
  std::string name;  // "layers.*.mlp.up_proj" where there are more than one, or where they have one name
  int64_t count = 0;
  int64_t bytes = 0;  // of all of them
};

// The largest first; where two are as large, in the order they were given.
std::vector<FoldedTensors> fold_tensors(const std::vector<PeakTensor>& tensors);

// "layers.*.mlp.up_proj x24", or the name alone for one.
std::string label_of(const FoldedTensors& tensors);

// One line each, every line after a line break: "\n      1.27 TiB  layers.*.mlp.up_proj x24". Of those beyond
// `most` the last line says how many they are and what they take.
std::string memory_lines(const std::vector<PeakTensor>& tensors, size_t most = 10);

}  // namespace genesis
