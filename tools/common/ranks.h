// Tools that several ranks run together: joining them, what they agree on, and what a session is told of them.
#pragma once

#include <memory>
#include <string>

#include "executor/distributed/world.h"
#include "tools/common/stop_signals.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// The ranks of --mesh; one where it is empty. `device` as given to --device. Where nothing has started several ranks, this
// process starts them as itself, waits for them and ends as they do.
std::shared_ptr<World> join_ranks(const std::string& mesh, const std::string& device);
// On this rank's device, with its ranks.
SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world);
// What all ranks do when each has voted: stop where one of them says so. All call it at the same step.
StopVote vote_to_stop(World& world, const StopVote& mine);
// Of all values that the states start from.
std::string digest_of_states(const Model& model);

}  // namespace genesis::tools
