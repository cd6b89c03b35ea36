// Opens a model by the name of its file, or of the folder to which its training writes checkpoints.
#pragma once

#include <memory>
#include <string>

#include "executor/distributed/world.h"
#include "schema/file/reader.h"

namespace genesis::models {

// Returns the path of the file itself. For a folder that is its newest checkpoint whose bytes are all intact. Throws Error
// naming a folder that has none, and naming the command that makes a model file of another program's file.
std::string model_file(const std::string& path);
// Does the same for all ranks: for a folder it is the checkpoint that rank 0 finds, since a training may write a newer one at any
// time. Throws Error if ranks were given other names than rank 0.
std::string model_file(const std::string& path, World& world);

// Returns true if the path names a model: a .genesis file, or a folder of checkpoints without a tokenizer.json.
bool names_model(const std::string& path);

// Loads the model. `options` apply to a file; a checkpoint in a folder is always verified completely. Throws Error naming the
// path.
std::unique_ptr<Model> open_model(const std::string& path, const LoadOptions& options = {});

}  // namespace genesis::models
