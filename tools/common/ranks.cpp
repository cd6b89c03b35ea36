#include "tools/common/ranks.h"

#include <algorithm>
#include <cstdlib>

#include "executor/distributed/local_launch.h"
#include "executor/runtime/device.h"

#include "schema/file/hash.h"

namespace genesis::tools {

std::shared_ptr<World> join_ranks(const std::string& mesh, const std::string& device) {
  if (mesh.empty()) return std::make_shared<World>();
  const Mesh ranks = Mesh::parse(mesh);
  const std::string resolved = resolve_device(device), kind = resolved.substr(0, resolved.find(':'));
  if (resolved != kind)
    fail("--mesh {} with --device {}: every rank takes a device of its own: give --device {}", mesh, device,
         kind);
  if (must_launch_ranks(ranks)) std::exit(launch_ranks(ranks, kind));
  return start_world(ranks, kind);
}

SessionOptions session_options(const RunFlags& flags, const std::shared_ptr<World>& world) {
  SessionOptions options = flags.session_options();
  if (world->size() == 1) return options;
  options.mesh = world->mesh();
  options.rank = world->rank();
  options.collectives = std::shared_ptr<Collectives>(world, world->collectives());
  options.device = resolve_device(options.device);
  if (options.device != "cpu") options.device += ":" + std::to_string(world->local_rank());
  return options;
}

StopVote vote_to_stop(World& world, const StopVote& mine) {
  StopVote all = mine;
  if (world.size() == 1) return all;
  for (const std::string& text : world.gather(fmt::format("{} {}", mine.signal, mine.time_up ? 1 : 0))) {
    all.signal = std::max(all.signal, std::stoi(text));
    all.time_up = all.time_up || text.ends_with("1");
  }
  return all;
}

std::string digest_of_states(const Model& model) {
  file::Hasher hasher;
  for (const State& state : model.states()) {
    if (!state.initial.empty_handle())
      hasher.update({state.initial.data(), static_cast<size_t>(state.initial.bytes())});
    for (const Tensor& part : state.encoded.parts)
      hasher.update({part.data(), static_cast<size_t>(part.bytes())});
  }
  return hasher.digest().to_string();
}

}  // namespace genesis::tools
