// The model that a command reads: a file, or with --hf the name of a model on Hugging Face.
#pragma once

#include <memory>
#include <string>

#include "executor/distributed/world.h"
#include "schema/graph/model.h"
#include "tools/common/command.h"

namespace genesis::tools {

// Adds the positional value "file" and --hf NAME to a command. `what` is the help of the file.
void add_model_name(Command& command, std::string& file, std::string& hub_name, const std::string& what);
// Adds --hf NAME alone.
void add_hub_name(Command& command, std::string& hub_name);

// Opens the model and sets `file` to the path of what was opened. With a name, all ranks open what the first one has fetched.
// Throws UsageError unless one of both is given.
std::shared_ptr<const Model> open_named(std::string& file, const std::string& hub_name, World& world);

// Fetches a model and returns its path; shows progress unless `quiet`.
std::string fetched(const std::string& hub_name, bool quiet = false);

}  // namespace genesis::tools
