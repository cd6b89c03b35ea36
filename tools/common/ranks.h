// Helps tools that several ranks run together: joining the ranks, values they agree on, and their session options.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <streambuf>
#include <string>

#include "executor/distributed/world.h"
#include "executor/training/batch_source.h"
#include "tools/common/stop_signals.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// The mesh axis along which ranks share the work of a command: "data", or "tensor" if there is no batch to share.
enum class SharedWork { kBatches, kLayers };

// Joins the ranks of --mesh; an empty mesh is a single rank. `device` as given to --device. If no launcher has
// started ranks, this process starts them as copies of itself, waits for them and exits as they do. Throws Error for
// ranks along "data" or "pipeline" that would share no work.
std::shared_ptr<World> join_ranks(const std::string& mesh, const std::string& device,
                                  SharedWork work = SharedWork::kBatches);
// Warns if --zero does nothing because the mesh has no ranks along `data` to shard over. Only the first rank calls
// it.
void warn_of_useless_zero(const std::string& mesh, int zero);
// Returns session options with this rank's device and mesh.
SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world);
// Runs the work of a rank. An Error of this rank also ends the other ranks, which print it. An error that all ranks
// have alike is printed by the first rank only. If all ranks have one command line, wrong usage is found by all of
// them, and the other ranks exit with code 0.
void as_rank(World& world, const std::function<void()>& body);

// Returns rank 0's text on all ranks. All ranks must call it.
std::string said_by_first(World& world, const std::string& mine);
bool agreed_by_first(World& world, bool mine);
// Returns the file of a model (open_model.h). For a folder it is the checkpoint that rank 0 finds, since a training
// may write a newer one at any time. Throws Error if ranks were given other names than rank 0.
std::string model_file_of_first(World& world, const std::string& name);

// Adds --mesh; a malformed mesh is wrong usage. The default help is for commands whose layers are computed by the
// ranks along `tensor` together.
Option* add_mesh(Command& app, std::string& mesh);
Option* add_mesh(Command& app, std::string& mesh, const std::string& what);
// Adds --zero, which says what the ranks along `data` shard. It needs --mesh.
void add_zero(Command& app, Option* mesh, int& zero);

// While it exists, only rank 0 writes to stdout and stderr, for text that all ranks would print alike.
class FirstRankSpeaks {
 public:
  explicit FirstRankSpeaks(const World& world);
  ~FirstRankSpeaks();
  FirstRankSpeaks(const FirstRankSpeaks&) = delete;
  FirstRankSpeaks& operator=(const FirstRankSpeaks&) = delete;

 private:
  std::streambuf *out_ = nullptr, *err_ = nullptr;  // null on rank 0
};

// Decides when the ranks stop: all together, as soon as one of them votes for it. A vote takes as long as all ranks
// need to meet, so they vote about twice a second and not at every step.
class StopVotes {
 public:
  explicit StopVotes(World& world) : world_(world) {}
  // All ranks call it after every step.
  StopVote after_step(const StopVote& mine);

 private:
  StopVote ask(const StopVote& mine);

  World& world_;
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
  int64_t every_ = 1, steps_ = 0;  // every_: steps between votes; steps_: steps since the last vote
};

// Returns a digest of the number of batches and their content. Of large data it reads an evenly spread sample of 64
// MiB.
std::string digest_of_data(BatchSource& data);
// Returns a digest of the initial values of all states.
std::string digest_of_states(const Model& model);

}  // namespace genesis::tools
