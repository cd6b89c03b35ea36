#include "backends/cuda/ranks/gpu_ranks.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <span>

#include "backends/cuda/nccl/nccl_group.h"
#include "backends/cuda/ranks/peer_group.h"
#include "backends/cuda/ranks/rank_texts.h"
#include "backends/cuda/runtime/runtime.h"
#include "backends/host_ranks.h"
#include "backends/joining_ranks.h"
#include "schema/core/error.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::cuda {
namespace {

using nccl::api;
using nccl::Comm;
using nccl::NcclGroup;
using nccl::UniqueId;
using nccl::Watch;

// Sets NCCL's environment variables that the user has not set. NVLink multicast needs more system support than there
// may be, and NCCL's RAS service would listen at a port.
void set_nccl_environment(const GpuRank& self, bool has_host_link) {
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  ::setenv("NCCL_RAS_ENABLE", "0", 0);
  if (self.is_one_host) ::setenv("NCCL_SOCKET_IFNAME", "=lo", 0);
  if (!has_host_link && !self.address.empty()) ::setenv("NCCL_COMM_ID", self.address.c_str(), 0);
}

// Returns rank 0's id, which the other ranks get over the host link; without a link, every rank creates the same id
// from NCCL_COMM_ID.
UniqueId common_id(const GpuRank& self, RankLink* host_link) {
  UniqueId id{};
  if (!host_link || self.rank == 0)
    if (const nccl::Result result = api().get_unique_id(&id); result != nccl::kSuccess)
      fail("NCCL cannot make an id for its ranks: {}", api().error_string(result));
  if (!host_link) return id;
  const std::string text = host_link->gather(self.rank == 0 ? std::string(id.bytes, sizeof id.bytes) : "")[0];
  GENESIS_ASSERT(text.size() == sizeof id.bytes);
  std::memcpy(id.bytes, text.data(), sizeof id.bytes);
  return id;
}

// Returns the GPU's name as nvidia-smi -L prints it; empty if there is no such GPU, an error that open_chip()
// reports.
std::string name_of_gpu(int device) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    cudaGetLastError();
    return "";
  }
  std::string name = "GPU-";
  for (int i = 0; i < static_cast<int>(sizeof properties.uuid.bytes); ++i)
    name += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(properties.uuid.bytes[i]));
  return name;
}

// Identifies a host: containers of one host differ by name, and hosts with the same name by their boot id.
std::string this_host(const std::string& name) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return name + " " + boot;
}

// Checks that each rank has its own GPU. NCCL refuses two ranks on one GPU too, but does not say which, and the other
// ranks only time out.
void require_own_gpus(RankLink& link, const GpuRank& self) {
  const std::vector<std::string> devices = link.gather(name_of_gpu(self.device)),
                                 hosts = link.gather(self.host);
  if (const std::string why = who_share_a_device(devices, hosts); !why.empty()) fail("{}", why);
}

class GpuCollectives final : public LinkCollectives<PeerGroup> {
 public:
  // `hosts` is by rank: GPUs of one host may access each other's memory.
  GpuCollectives(RankLink& link, Watch& watch, Comm* world, const Mesh& mesh,
                 std::span<const std::string> hosts)
      : LinkCollectives(link) {
    for (const std::string& name : group_names(mesh)) {
      const int place = static_cast<int>(mesh.place(link.rank(), name));
      const std::vector<int64_t> ranks = mesh.group(link.rank(), name);
      const int first = static_cast<int>(ranks[0]);
      Comm* part = nullptr;
      if (!watch.call("ncclCommSplit", [&] { return api().split(world, first, place, &part, nullptr); }))
        fail("{}", watch.failure());
      groups_.try_emplace(name, watch, watch.add(part), name, place, static_cast<int>(ranks.size()),
                          are_on_one_host(ranks, hosts));
    }
  }
};

class GpuLink final : public RankLink {
 public:
  GpuLink(const GpuRank& self, const RankLimits& limits, std::unique_ptr<RankLink> host_link)
      : self_(self),
        host_link_(std::move(host_link)),
        neighbors_(host_link_ ? nullptr
                              : HostRanks::open(
                                    {self.rank, self.size, self.host, self.address, name_of_gpu(self.device)},
                                    limits.silence)),
        joining_(self.host, limits.silence),
        watch_(rank_name(self.rank, self.host), self.device, limits, [this] { return failure_of_others(); }) {
    open_chip(self.device);
    set_nccl_environment(self, host_link_ != nullptr);
    if (host_link_) require_own_gpus(*host_link_, self);
    const UniqueId id = common_id(self, host_link_.get());
    if (!watch_.call("ncclCommInitRank", [&] { return api().init_rank(&world_, self.size, id, self.rank); }))
      fail("{}", why_not_joined());
    has_joined_ = true;
    watch_.add(world_);
    if (host_link_) return;
    group_.emplace(watch_, world_, "world", self.rank, self.size);
    texts_.emplace(*group_, self.device);
    const std::vector<std::string> places = gather(neighbors_ ? neighbors_->place() : "");
    if (neighbors_) neighbors_->watch(places);
  }

  // A rank that is destroyed by an exception reports its failure first, so that other ranks stop waiting for it: GPU
  // memory is freed and communicators end only when nothing waits any more. A rank that ends normally may wait in
  // NCCL for ranks that still write files; it stays silent meanwhile, which is not an error.
  ~GpuLink() override {
    if (std::uncaught_exceptions() > 0) abort("it ends with an error");
    if (neighbors_ && watch_.has_failed()) neighbors_->fail(watch_.failure());
    if (neighbors_) neighbors_->leave();
  }

  int rank() const override { return self_.rank; }
  int size() const override { return self_.size; }
  std::vector<std::string> gather(const std::string& mine) override {
    if (host_link_) return host_link_->gather(mine);
    const int before = current_device();
    check(cudaSetDevice(self_.device), "choosing a device");
    std::vector<std::string> texts = texts_->gather(mine);
    check(cudaSetDevice(before), "choosing a device");
    if (const std::string why = failure(); !why.empty()) fail("{}", why);
    return texts;
  }
  std::unique_ptr<Collectives> collectives(const Mesh& mesh) override {
    if (mesh.ranks() != size())
      fail("mesh '{}' has {} ranks, and {} were started", mesh.to_string(), mesh.ranks(), size());
    check(cudaSetDevice(self_.device), "choosing a device");
    const std::vector<std::string> hosts = gather(self_.is_one_host ? "" : this_host(self_.host));
    return std::make_unique<GpuCollectives>(*this, watch_, world_, mesh, hosts);
  }
  std::string failure() const override { return watch_.failure(); }
  void abort(const std::string& why) override {
    watch_.fail(rank_name(self_.rank, self_.host) + " failed: " + why);
    if (host_link_) host_link_->abort(why);
    if (neighbors_) neighbors_->fail(watch_.failure());
  }

 private:
  std::string why_not_joined() const {
    const std::string why = neighbors_ ? neighbors_->who_share_a_device() : "";
    return why.empty() ? watch_.failure() : why;
  }
  std::string failure_of_others() {
    if (host_link_) return host_link_->failure();
    if (!has_joined_) return joining_.who_is_stopped();
    return neighbors_ ? neighbors_->failure() : "";
  }

  GpuRank self_;
  std::unique_ptr<RankLink> host_link_;   // outlives `watch_`, which uses it
  std::unique_ptr<HostRanks> neighbors_;  // the ranks of this host, if there is no host link
  std::atomic<bool> has_joined_ = false;
  JoiningRanks joining_;
  Watch watch_;
  Comm* world_ = nullptr;
  std::optional<NcclGroup> group_;
  std::optional<RankTexts> texts_;
};

}  // namespace

int count_visible_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::unique_ptr<RankLink> join_gpu_ranks(const GpuRank& self, const RankLimits& limits,
                                         std::unique_ptr<RankLink> host_link) {
  return std::make_unique<GpuLink>(self, limits, std::move(host_link));
}

}  // namespace genesis::cuda
