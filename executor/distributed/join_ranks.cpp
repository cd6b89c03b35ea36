#include "executor/distributed/join_ranks.h"

#include <cstdlib>

#include "executor/distributed/launch.h"
#include "executor/distributed/local_launch.h"
#include "executor/runtime/device.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"
#include "schema/ranks/mesh_axes.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis {
namespace {

// Warns if a launcher has started several ranks without --mesh: each does all of the work, which is seldom intended.
void warn_of_copies(SharedWork work) try {
  const Launch launch = find_ranks();
  if (launch.by != Launcher::kNone && launch.size > 1 && launch.rank == 0)
    log_warning(
        "{} started {} ranks, and without --mesh each of them works for itself: --mesh {}={} shares the "
        "work",
        name_of(launch.by), launch.size, work == SharedWork::kBatches ? kDataAxis : kTensorAxis, launch.size);
} catch (const Error&) {
  // A malformed variable of a launcher does not matter here, because this process takes no part in a run of ranks.
}

void check_shares(const Mesh& mesh, SharedWork work) {
  if (work != SharedWork::kLayers) return;
  const int64_t ranks = mesh.size(kReplicaAxis), stages = mesh.size(kPipelineAxis);
  if (stages > 1)
    fail(
        "--mesh {}: ranks along 'pipeline' share the micro-batches' way through a training step, and here "
        "nothing trains: give --mesh tensor={}, whose ranks share the layers",
        mesh.to_string(), stages * mesh.size(kTensorAxis));
  if (ranks <= 1) return;
  fail(
      "--mesh {}: ranks along 'data' share batches of training, and here each would do the same: give --mesh "
      "tensor={}, "
      "whose ranks share the layers",
      mesh.to_string(), ranks * mesh.size(kTensorAxis));
}

}  // namespace

std::shared_ptr<World> join_ranks(const std::string& mesh, const std::string& device, SharedWork work) {
  if (mesh.empty()) {
    warn_of_copies(work);
    return std::make_shared<World>();
  }
  const Mesh ranks = Mesh::parse(mesh);
  check_shares(ranks, work);
  const std::string resolved = resolve_device(device), kind = resolved.substr(0, resolved.find(':'));
  if (resolved != kind)
    fail("--mesh {} with --device {}: every rank takes a device of its own: give --device {}", mesh, device,
         kind);
  if (must_launch_ranks(ranks)) std::exit(launch_ranks(ranks, kind));
  return start_world(ranks, kind);
}

}  // namespace genesis
