// Helps tools that several ranks run together: their options, ending them together, and who writes.
#pragma once

#include <functional>
#include <memory>
#include <streambuf>
#include <string>

#include "executor/distributed/join_ranks.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// Warns if --zero does nothing because the mesh has no ranks along `data` to shard over. Only the first rank calls
// it.
void warn_of_useless_zero(const std::string& mesh, int zero);
// Returns session options with this rank's device and mesh.
SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world);
// The same with the ZeRO stage of --zero, of which the first rank warns if it does nothing.
SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world,
                               const std::string& mesh, int zero);
// Joins the ranks of --mesh, or starts them, and runs the work of this one. An Error of this rank also ends the other
// ranks, which print it. An error that all ranks have alike is printed by the first rank only. If all ranks have one
// command line, wrong usage is found by all of them, and the other ranks exit with code 0.
void run_ranks(const std::string& mesh, const RunFlags& flags, SharedWork work,
               const std::function<void(const std::shared_ptr<World>&)>& body);

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

}  // namespace genesis::tools
