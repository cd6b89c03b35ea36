// A group of GPUs: NCCL and, for GPUs of one host that access each other's memory, faster methods for planned
// exchanges:
//   one shot     sums of up to 512 KiB per tensor, whose latency dominates
//   two shots    larger sums that other work waits for; a reduce_scatter takes only the first shot
//   pushes       shards that each rank writes to all others, if other work waits for them or is memory bound
//   copies       exchanges that overlap with compute-bound kernels, by copy engines; sums that overlap with any kernels
// All other exchanges, and those that were not planned, use NCCL.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "backends/cuda/nccl/nccl_group.h"
#include "backends/cuda/ranks/peer_copies.h"
#include "backends/cuda/ranks/peer_memory.h"

namespace genesis::cuda {

class PeerGroup final : public RankGroup {
 public:
  // Arguments as for NcclGroup. With `is_one_host` the GPUs try to map each other's memory; all ranks of the group
  // construct it at the same time.
  PeerGroup(nccl::Watch& watch, nccl::Comm* comm, const std::string& axis, int rank, int size,
            bool is_one_host);
  ~PeerGroup();

  int rank() const override { return nccl_.rank(); }
  int size() const override { return nccl_.size(); }
  void plan_exchanges(std::span<const PlannedExchange> exchanges) override;
  void all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void* stream) override;
  bool all_reduce_adding(const Exchange& tensor, const void* addend, void* stream, bool early) override;
  void reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void* stream) override;
  void all_gather(std::span<const Exchange> tensors, void* stream) override;
  void all_to_all(std::span<const Exchange> tensors, void* stream) override;
  void broadcast(std::span<const Exchange> tensors, int root, void* stream) override;
  void send(std::span<const Exchange> tensors, int to, void* stream) override;
  void receive(std::span<const Exchange> tensors, int from, void* stream) override;

 private:
  struct Planned {
    std::vector<PeerExchange> tensors;  // without empty tensors
    WorkBeside beside = WorkBeside::kNone;
    bool is_reachable = false;  // all ranks can access them
  };

  void reach_peers();
  // Allocates this rank's control memory and lends it to the others. Returns the control memory of all ranks; sets
  // `why_not` if a rank cannot access it.
  std::vector<PeerMemory::Seen> share_control(std::string& why_not);
  // Enables the faster methods, given the control memory of all ranks.
  void connect(std::span<const PeerMemory::Seen> seen);
  // Removes the plan of this call from the queue and returns it; is_reachable is false if there was none.
  Planned next(std::span<const Exchange> tensors);
  bool next_runs_in_kernels(RankReduction reduction) const;
  void all_reduce_in_kernels(const PeerExchange& tensor, const PeerSum& sum, const Launch& launch);
  void all_reduce_in_kernels(std::span<const PeerExchange> tensors, RankReduction reduction,
                             cudaStream_t stream);
  void push(std::span<const PeerExchange> tensors, cudaStream_t stream);
  // Reports an error of copies_ as a failure of the whole run.
  void note_failure();

  nccl::Watch& watch_;
  nccl::NcclGroup nccl_;
  std::string axis_;
  std::shared_ptr<std::byte> control_memory_, epochs_, has_failed_;
  std::unique_ptr<PeerMemory> memory_;  // null: NCCL does everything
  PeerControl control_;
  std::optional<PeerCopies> copies_;
  std::deque<Planned> planned_;
  int release_ = 0;  // number of the release function that watch_ has
};

}  // namespace genesis::cuda
