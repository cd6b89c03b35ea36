// Files that travel with a model unread (Model::files): a tokenizer, its settings. They are saved with the model and mapped with
// it.
#pragma once

#include <optional>
#include <string_view>

#include "schema/graph/model.h"

namespace genesis {

// Attaches a file; replaces an attached file of the same name.
void attach_file(Model& model, const std::string& name, std::string_view bytes);

// Returns the bytes of an attached file, valid as long as the model lives; empty if there is none of this name.
std::optional<std::string_view> attached_file(const Model& model, std::string_view name);

}  // namespace genesis
