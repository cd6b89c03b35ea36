// Takes some entry points out of a model, with only the states and tensors they read: a model for serving
// does not carry the optimizer that trained it.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "schema/graph/model.h"

namespace genesis::passes {

// Throws Error naming an entry point that the model does not have.
std::unique_ptr<Model> extract_entries(const Model& model, const std::set<std::string>& names);

}  // namespace genesis::passes
