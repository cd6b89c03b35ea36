// Checkpoints: the model file format again, with the states' values of a running session, in a folder of
// numbered files. A checkpoint holds parameters, optimizer, schedule step and RNG (all are states) and the
// data position (metadata), so training goes on from it bit for bit; being a model file, it also runs by
// itself.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "executor/session.h"

namespace genesis {

struct Checkpoint {
  std::filesystem::path path;
  int64_t step = 0;  // training steps done
};

// The model with the session's values of all states but caches, ready for save_model(). It is a model like
// any other, not a checkpoint: trained again, it begins at step 1 of the data it is given.
std::unique_ptr<Model> snapshot(const Session& session);

// Metadata that say in which order a run takes its data, in words; only checkpoints keep them.
inline constexpr const char* kDataOrderKey = "checkpoint.data";

// Training steps that a model loaded from a checkpoint has behind it; 0 for any other model.
int64_t steps_done(const Model& model);

// Throws Error when there is no folder and none can be made.
void make_checkpoint_folder(const std::filesystem::path& directory);

// Writes DIR/step-<step>.genesis atomically, then removes all but the newest `keep` checkpoints up to it.
// Those of later steps stay: they are damaged, or find_checkpoint() would have begun there.
Checkpoint save_checkpoint(const Session& session, const std::filesystem::path& directory, int64_t step,
                           int keep = 2);

// The newest checkpoint in the folder of which every byte is intact; a damaged newer one is passed over.
// Empty: there is none.
std::optional<Checkpoint> find_checkpoint(const std::filesystem::path& directory);

// Loads a checkpoint as a model to start a Session from, and verifies every byte of it.
std::shared_ptr<Model> load_checkpoint(const Checkpoint& checkpoint);

}  // namespace genesis
