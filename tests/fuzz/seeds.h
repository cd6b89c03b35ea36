// What damage starts from: undamaged files that between them hold every feature of the format and nearly
// every op.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::testing {

// One valid node, or several, of each op that a random search finds inputs and attributes for.
std::unique_ptr<Model> op_zoo();

struct Seed {
  std::string name, bytes;
};
const std::vector<Seed>& model_seeds();  // made once

}  // namespace genesis::testing
