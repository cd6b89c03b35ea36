// Checkpoints that all ranks of a run write, each its part of the states:
//
//   run/step-000000300.genesis               the model, whose states are links to what the parts hold; the last to appear
//   run/step-000000300.parts/rank-0.genesis  the states that rank 0 keeps (executor/states/state_parts.h)
//   run/step-000000300.parts/rank-1.genesis  ...
//
// Every part is written and brought to the disk as a whole, like any file of ours. Rank 0 waits until all are there and
// writes the model last, so a checkpoint is whole or it is none, whichever rank is killed when. The folder is one that all
// ranks see. The model is a file like others: load_model() opens it on any number of ranks, and in any tool.
// Used by CheckpointWriter, and for single files by whoever ends a training.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "executor/session.h"
#include "executor/states/state_parts.h"
#include "executor/training/checkpoint_names.h"
#include "schema/file/io/atomic_write.h"
#include "schema/graph/model.h"

namespace genesis {

// Writes `part`, the states of one rank. `run` tells the parts of this run from those that another one left behind.
void write_part(Model& part, const std::filesystem::path& checkpoint, int64_t rank, const std::string& run);

struct PartsToCome {
  std::string run;
  // Asked now and then while parts are waited for: why they will never come; empty: they may.
  std::function<std::string()> given_up = {};
  double seconds = 600;  // after which a rank is taken for lost
};

// Waits for the parts of all ranks, then writes `model` with their states. Throws Error naming the rank whose part does not
// come, or does not hold what it should.
void join_parts(Model& model, const StateParts& parts, const std::filesystem::path& checkpoint,
                const PartsToCome& expected);

// One file with the states of all ranks, for which they write parts beside it that are gone when it is there; so no rank has
// more in memory than its own. All ranks of a session that shares states call it, between two runs, and see the file's folder;
// the first comes back when the file is in its place. Throws Error; a file that was there stays then.
void save_together(Session& session, const std::filesystem::path& path, const std::string& run,
                   LinkAtName link = LinkAtName::kFollowed);

// Removes parts whose checkpoint is not there: of one that was not finished, or was removed.
void remove_abandoned_parts(const std::filesystem::path& directory);

}  // namespace genesis
