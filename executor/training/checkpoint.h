// Checkpoints: the model file format again, with the states' values of a running session, in a folder of
// numbered files. A checkpoint holds parameters, optimizer, schedule step and RNG (all are states) and the
// data position (metadata), so training goes on from it bit for bit; being a model file, it also runs by
// itself.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "executor/session.h"
#include "executor/snapshot.h"
#include "executor/training/checkpoint_names.h"

namespace genesis {

struct Checkpoint {
  std::filesystem::path path;
  int64_t step = 0;  // training steps done
};

// Metadata that say in which order a run takes its data, in words; only checkpoints keep them.
inline constexpr const char* kDataOrderKey = "checkpoint.data";
// And which data these are: a digest of some of its batches.
inline constexpr const char* kDataContentKey = "checkpoint.data_content";

// Training steps that a model loaded from a checkpoint has behind it; 0 for any other model.
int64_t steps_done(const Model& model);
// The model's weights without the training that it has behind it (passes::without_training): where another one begins.
std::unique_ptr<Model> to_train_anew(const Model& model);

// Throws Error when there is no folder and none can be made.
void make_checkpoint_folder(const std::filesystem::path& directory);

// Whether the folder holds any checkpoint, intact or not.
bool has_checkpoints(const std::filesystem::path& directory);

// Writes DIR/step-<step>.genesis atomically, then removes all but the newest `keep` checkpoints up to it.
// Damaged ones do not count among those to keep, and go with the intact ones that are older. Those of later
// steps stay: they are damaged, or find_checkpoint() would have begun there. Take a CheckpointLock where
// another process may write to the folder.
Checkpoint save_checkpoint(const Session& session, const std::filesystem::path& directory, int64_t step,
                           int keep = 2);

// Writes the model, with the steps done among its metadata, to a path.
using WriteModel = std::function<void(Model& model, const std::filesystem::path& path)>;

// The same of a model that has the states' values and the metadata of the session's model, or that `write` gives them.
// Used by CheckpointWriter.
Checkpoint write_checkpoint(Model& model, const std::filesystem::path& directory, int64_t step, int keep,
                            const WriteModel& write = {});

// The newest checkpoint in the folder of which every byte is intact; a damaged newer one is passed over, with
// a warning. Empty: there is none. Throws Error naming all of them when there are some and all are damaged:
// to begin anew is for the user to decide.
std::optional<Checkpoint> find_checkpoint(const std::filesystem::path& directory);

// Loads a checkpoint as a model to start a Session from; every byte of it is verified, unless this process has just done
// so.
std::shared_ptr<Model> load_checkpoint(const Checkpoint& checkpoint);

}  // namespace genesis
