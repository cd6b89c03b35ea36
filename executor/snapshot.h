// Copies a session's model with the current values of its states; saving a session and making a checkpoint both begin with this.
// Caches keep their initial values.
#pragma once

#include <memory>

#include "executor/session.h"

namespace genesis {

class StateSnapshot;

// Returns the model with all metadata of the session's model, for a checkpoint.
std::unique_ptr<Model> with_values(const Session& session);

// Returns a model ready for save_model(). It is not a checkpoint: if it is trained again, training begins at step 1 of its data.
std::unique_ptr<Model> snapshot(const Session& session);
// Removes the metadata that mark a model as a checkpoint.
void forget_checkpoint(Model& model);

// Makes an object that copies all states while runs go on (executor/states/state_snapshot.h). The session must outlive it.
std::unique_ptr<StateSnapshot> make_state_snapshot(Session& session);

}  // namespace genesis
