#include "executor/distributed/world.h"

#include <algorithm>

#include "backends/cuda/ranks/gpu_ranks.h"
#include "backends/mpi/mpi_ranks.h"
#include "executor/distributed/slurm_step.h"
#include "executor/environment.h"
#include "executor/runtime/device.h"
#include "schema/core/error.h"
#include "schema/core/host_name.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

void check_size(const Mesh& mesh, const Launch& launch) {
  if (mesh.ranks() == launch.size) return;
  if (launch.by == Launcher::kNone)
    fail("mesh '{}' has {} ranks, and this process stands alone: start them with mpirun -n {} or srun -n {}",
         mesh.to_string(), mesh.ranks(), mesh.ranks(), mesh.ranks());
  fail("mesh '{}' has {} ranks, but {} started {}: give --mesh sizes whose product is {}", mesh.to_string(),
       mesh.ranks(), name_of(launch.by), launch.size, launch.size);
}

std::unique_ptr<RankLink> join_mpi(const Launch& launch, const RankLimits& limits) {
  std::unique_ptr<RankLink> link = mpi::join_ranks(limits);
  if (link->size() == launch.size && link->rank() == launch.rank) return link;
  fail(
      "{} started {} ranks, but MPI knows {} of them: start them with the mpirun of the MPI library that "
      "Genesis uses, "
      "or with srun --mpi=pmix",
      name_of(launch.by), launch.size, link->size());
}

// Returns null if MPI fails but the ranks can do without, since srun's variables say where they meet.
std::unique_ptr<RankLink> try_mpi(const Launch& launch, const RankLimits& limits) try {
  return launch.mpi == MpiRanks::kExpected ? join_mpi(launch, limits) : nullptr;
} catch (const Error& error) {
  if (launch.address.empty()) throw;
  log_debug("ranks on GPUs meet at {} without MPI: {}", launch.address, error.message());
  return nullptr;
}

// A host name can resolve to different addresses on different hosts; all ranks take the one that other hosts can reach.
std::string meeting_address(const Launch& launch) {
  if (launch.address.empty())
    fail(
        "ranks on GPUs that {} started have no address to meet at: set MASTER_ADDR to the host of rank 0 "
        "and MASTER_PORT "
        "to a free port of it",
        name_of(launch.by));
  return launch.by == Launcher::kSlurm && !launch.is_one_host ? resolve_meeting(launch.address)
                                                              : launch.address;
}

// Ranks on GPUs exchange data over NCCL. If MPI started them, they exchange texts over MPI.
std::unique_ptr<RankLink> join_gpus(const Launch& launch, const RankLimits& limits) {
  std::unique_ptr<RankLink> host_link = try_mpi(launch, limits);
  // Computed before the call below: its last argument, which moves the link away, may be evaluated first.
  const std::string address = host_link ? "" : meeting_address(launch);
  return cuda::join_gpu_ranks({.rank = launch.rank,
                               .size = launch.size,
                               .device = launch.gpu,
                               .host = host_name(),
                               .address = address,
                               .is_one_host = launch.is_one_host},
                              limits, std::move(host_link));
}

std::unique_ptr<RankLink> join(const Launch& launch, std::string_view device_kind, const RankLimits& limits) {
  if (device_kind != "cpu") return join_gpus(launch, limits);
  if (launch.mpi != MpiRanks::kNone) return join_mpi(launch, limits);
  fail(
      "ranks on CPUs exchange data over MPI: start them with mpirun -n {} or srun --mpi=pmix -n {}, not by "
      "{}",
      launch.size, launch.size, name_of(launch.by));
}

}  // namespace

RankLimits default_limits() { return {.call = environment().collective_timeout}; }

World::World(Mesh mesh, Launch launch, std::unique_ptr<RankLink> link)
    : mesh_(std::move(mesh)), launch_(std::move(launch)), link_(std::move(link)) {
  hosts_ = link_->gather(host_name());
  require_same("the mesh", mesh_.to_string());
  collectives_ = link_->collectives(mesh_);
}

std::vector<std::string> World::gather(const std::string& mine) {
  return link_ ? link_->gather(mine) : std::vector<std::string>{mine};
}

std::string World::said_by_first(const std::string& mine) {
  return size() == 1 ? mine : gather(is_first() ? mine : "")[0];
}

namespace {

// Returns the line in which `text` first differs from `other`, shortened for a message.
std::string differing_line(const std::string& text, const std::string& other) {
  constexpr size_t kShown = 100;
  const auto [here, there] = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
  const auto at = static_cast<size_t>(here - text.begin());
  const size_t newline = at == 0 ? text.npos : text.rfind('\n', at - 1),
               begin = newline == text.npos ? 0 : newline + 1;
  return text.substr(begin, std::min(text.find('\n', at), begin + kShown) - begin);
}

}  // namespace

void World::require_same(const std::string& what, const std::string& text, std::string_view axis) {
  const std::vector<std::string> texts = gather(text);
  std::string others;
  size_t example = 0, model = 0;
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    const auto first =
        axis.empty() ? 0 : static_cast<size_t>(mesh_.group(static_cast<int64_t>(rank), axis)[0]);
    if (texts[rank] == texts[first]) continue;
    if (others.empty()) example = rank, model = first;
    others += (others.empty() ? "" : ", ") + name(static_cast<int>(rank));
  }
  if (!others.empty())
    fail("{} differs between ranks: {} has '{}', and not so: {} ('{}' on rank {})", what,
         name(static_cast<int>(model)), differing_line(texts[model], texts[example]), others,
         differing_line(texts[example], texts[model]), example);
}

void World::check() const {
  if (const std::string failure = link_ ? link_->failure() : ""; !failure.empty()) fail("{}", failure);
}

void World::abort(const std::string& why) {
  if (link_) link_->abort(why);
}

std::shared_ptr<World> start_world(const Mesh& mesh, std::string_view device_kind,
                                   const WorldOptions& options) {
  Launch launch = find_launch();
  check_size(mesh, launch);
  if (launch.size == 1) return std::make_shared<World>();
  if (device_kind != "cpu") launch.gpu = gpu_of(launch, cuda::count_visible_gpus());
  return std::make_shared<World>(mesh, launch, join(launch, device_kind, options.limits));
}

SessionOptions options_of_rank(SessionOptions options, const std::shared_ptr<World>& world) {
  if (world->size() == 1) return options;
  options.mesh = world->mesh();
  options.rank = world->rank();
  options.collectives = std::shared_ptr<Collectives>(world, world->collectives());
  options.device = resolve_device(options.device);
  if (options.device != "cpu") options.device += ":" + std::to_string(world->gpu());
  return options;
}

}  // namespace genesis
