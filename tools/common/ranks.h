// Tools that several ranks run together: joining them, what they agree on, and what a session is told of them.
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

// Along which axis ranks share what a command does: "data", or "tensor" where there is no batch to share.
enum class SharedWork { kBatches, kLayers };

// The ranks of --mesh; one where it is empty. `device` as given to --device. Where nothing has started several ranks, this
// process starts them as itself, waits for them and ends as they do. Throws Error for ranks along "data" that would share nothing.
std::shared_ptr<World> join_ranks(const std::string& mesh, const std::string& device,
                                  SharedWork work = SharedWork::kBatches);
// Says that --zero does nothing where the mesh has no ranks along `data` that would share what it names. The first rank calls it.
void warn_of_useless_zero(const std::string& mesh, int zero);
// On this rank's device, with its ranks.
SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world);
// Runs what a rank does. An Error of this one ends the others too, which say what it was; what all fail with alike the first one
// says for them. Wrong usage is what ranks with one command line find alike: they leave in order.
void as_rank(World& world, const std::function<void()>& body);

// What rank 0 says, on all ranks, which call it together.
std::string said_by_first(World& world, const std::string& mine);
bool agreed_by_first(World& world, bool mine);
// The file of a model (open_model.h): of a folder the checkpoint that rank 0 finds, as a training may write a newer one meanwhile.
// Throws Error where ranks were given other names than rank 0.
std::string model_file_of_first(World& world, const std::string& name);

// Adds --mesh, whose text is wrong usage where it is none: for commands whose layers the ranks along `tensor` compute together, or
// with help of their own.
Option* add_mesh(Command& app, std::string& mesh);
Option* add_mesh(Command& app, std::string& mesh, const std::string& what);
// Adds --zero, what the ranks along `data` share, beside the --mesh that says how many there are.
void add_zero(Command& app, Option* mesh, int& zero);

// As long as it lives, only rank 0 writes to stdout and stderr: what all ranks would say alike.
class FirstRankSpeaks {
 public:
  explicit FirstRankSpeaks(const World& world);
  ~FirstRankSpeaks();
  FirstRankSpeaks(const FirstRankSpeaks&) = delete;
  FirstRankSpeaks& operator=(const FirstRankSpeaks&) = delete;

 private:
  std::streambuf *out_ = nullptr, *err_ = nullptr;  // null: this is rank 0
};

// Whether the ranks stop, which they do together, where one of them says so. To ask takes as long as all ranks need to meet, so
// they do about twice a second, and not at every step.
class StopVotes {
 public:
  explicit StopVotes(World& world) : world_(world) {}
  // All ranks call it after every step.
  StopVote after_step(const StopVote& mine);

 private:
  StopVote ask(const StopVote& mine);

  World& world_;
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
  int64_t every_ = 1, steps_ = 0;  // since they last met
};

// Of how many batches there are and what is in them: in all, or of large data in as many as come to 64 MiB, evenly spread.
std::string digest_of_data(BatchSource& data);
// Of all values that the states start from.
std::string digest_of_states(const Model& model);

}  // namespace genesis::tools
