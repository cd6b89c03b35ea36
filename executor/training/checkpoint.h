// Checkpoints are model files with the current state values of a session, in a folder of numbered files. A checkpoint holds
// parameters, optimizer, schedule step and RNG (all are states) and the data position (metadata), so resumed training continues
// exactly where it stopped. Being a model file, a checkpoint can also be run.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "executor/session.h"
#include "executor/snapshot.h"

namespace genesis {

struct Checkpoint {
  std::filesystem::path path;
  int64_t step = 0;  // training steps done
};

// The metadata key of a description of the order in which a run takes its data; only checkpoints have it.
inline constexpr const char* kDataOrderKey = "checkpoint.data";
// The metadata key of a digest of some batches, which identifies the data.
inline constexpr const char* kDataContentKey = "checkpoint.data_content";

// Returns the number of training steps done by a model loaded from a checkpoint; 0 for any other model.
int64_t steps_done(const Model& model);
// Returns the model's weights without its training (passes::without_training), to start another training from them.
std::unique_ptr<Model> to_train_anew(const Model& model);

// Throws Error if the folder does not exist and cannot be created.
void make_checkpoint_folder(const std::filesystem::path& directory);

// Returns true if the folder holds any checkpoint, intact or not.
bool has_checkpoints(const std::filesystem::path& directory);

// Writes DIR/step-<step>.genesis atomically, then removes all but the newest `keep` intact checkpoints up to this step. Damaged
// checkpoints do not count, and are removed with the older intact ones. Checkpoints of later steps stay: they are damaged,
// otherwise find_checkpoint() would have resumed there. Hold a CheckpointLock if another process may write to the folder.
Checkpoint save_checkpoint(const Session& session, const std::filesystem::path& directory, int64_t step,
                           int keep = 2);

// Writes the model, whose metadata include the steps done, to a path.
using WriteModel = std::function<void(Model& model, const std::filesystem::path& path)>;

// Does the same for a model that has the current state values and the metadata of the session's model, or that gets the values
// from `write`.
Checkpoint write_checkpoint(Model& model, const std::filesystem::path& directory, int64_t step, int keep,
                            const WriteModel& write = {});

// Returns the newest checkpoint in the folder that is intact to the last byte, with a warning for each damaged newer one; empty
// if there are none. Throws Error that names all of them if all are damaged, so that training does not silently start from zero.
std::optional<Checkpoint> find_checkpoint(const std::filesystem::path& directory);

// Loads a checkpoint as a model to start a Session from. Every byte is verified, unless this process has just done so.
std::shared_ptr<Model> load_checkpoint(const Checkpoint& checkpoint);

}  // namespace genesis
