// A session's model with the values its states have now: what saving a session and making a checkpoint begin with.
// Caches keep their initial values.
#pragma once

#include <memory>

#include "executor/session.h"

namespace genesis {

// With all metadata of the session's model: what a checkpoint is made of.
std::unique_ptr<Model> with_values(const Session& session);

// Ready for save_model(). It is a model like any other, not a checkpoint: trained again, it begins at step 1 of the
// data it is given.
std::unique_ptr<Model> snapshot(const Session& session);
// What makes the difference: what a model's metadata says of the checkpoint that it was.
void forget_checkpoint(Model& model);

}  // namespace genesis
