// Checkpoints that all ranks of a run write together, each rank its own states and shards:
//
//   run/step-000000300.genesis               the model, whose states are links to what the shards hold; the last to appear
//   run/step-000000300.parts/rank-0.genesis  the states that rank 0 keeps (executor/states/state_shards.h)
//   run/step-000000300.parts/rank-1.genesis  ...
//
// Every shard is written and flushed to disk atomically, like all files of this program. Rank 0 waits until all shards are there
// and writes the model last, so a checkpoint is either complete or absent, whichever rank is killed. All ranks must see the
// folder. The model is an ordinary file: load_model() opens it on any number of ranks, and in any tool.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "executor/session.h"
#include "executor/states/state_shards.h"
#include "executor/training/checkpoint_names.h"
#include "schema/file/io/atomic_write.h"
#include "schema/graph/model.h"

namespace genesis {

// Writes `shard`, the states of one rank. `run` distinguishes the shards of this run from those that another run left behind.
void write_shard(Model& shard, const std::filesystem::path& checkpoint, int64_t rank, const std::string& run);

struct ExpectedShards {
  std::string run;
  // Called repeatedly while waiting: returns why the shards will never come; empty: they may.
  std::function<std::string()> given_up = {};
  double seconds = 600;  // after this time a rank counts as lost
};

// Waits for the shards of all ranks, then writes `model` with their states. Throws Error that names a rank whose shard does not
// come or is incomplete.
void join_shards(Model& model, const StateShards& shards, const std::filesystem::path& checkpoint,
                 const ExpectedShards& expected);

// Writes one file with the states of all ranks. Each rank writes a shard beside it, which is removed at the end, so no rank needs
// memory for more than its own states. All ranks of a session with sharded states call it between two runs, and all must see the
// file's folder. Rank 0 returns when the file is in place. Throws Error; an existing file then stays.
void save_together(Session& session, const std::filesystem::path& path, const std::string& run,
                   LinkAtName link = LinkAtName::kFollowed);

// Removes shards without a checkpoint, which was not finished or has been removed.
void remove_abandoned_shards(const std::filesystem::path& directory);

}  // namespace genesis
