// The starting points of damage: undamaged files that together contain every feature of the format and nearly every
// op.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::testing {

// Contains one or several valid nodes of each op for which a random search finds inputs and attributes.
std::unique_ptr<Model> op_zoo();

struct Seed {
  std::string name, bytes;
};
const std::vector<Seed>& model_seeds();  // made once

}  // namespace genesis::testing
