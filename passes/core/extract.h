// Copies some entry points out of a model, with only the states and tensors that they read: a model for serving does not need
// the optimizer that trained it.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "schema/graph/model.h"

namespace genesis::passes {

// Entry points that these run (schema/graph/bodies.h) are kept, too. Throws an Error that names an entry point which the model does
// not have.
std::unique_ptr<Model> extract_entries(const Model& model, const std::set<std::string>& names);

}  // namespace genesis::passes
