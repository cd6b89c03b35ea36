// Files that travel with a model unread (Model::files): a tokenizer, its settings. They are kept with the model wherever it
// is saved, and mapped with it.
#pragma once

#include <optional>
#include <string_view>

#include "schema/graph/model.h"

namespace genesis {

// Under the name `name`, in the place of one that had it.
void attach_file(Model& model, const std::string& name, std::string_view bytes);

// The bytes of a file, for as long as the model lives; nothing when there is none of this name.
std::optional<std::string_view> attached_file(const Model& model, std::string_view name);

}  // namespace genesis
