// A group of GPUs: NCCL, and for GPUs of one host that reach each other's memory faster ways for planned exchanges:
//   one shot     sums of up to 512 KiB a tensor, of which the latency is what counts
//   two shots    larger sums that other work waits for; a sum of which each rank wants a part takes the first of them
//   pushes       parts that each rank writes to all others, that other work waits for or memory bounds
//   copies       what is exchanged beside kernels that need the processor, by copy engines; sums beside any
// What is not planned, and whatever these ways do not do, is NCCL's.
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
  // As NcclGroup. `is_one_host`: GPUs try to reach each other's memory; all ranks of the group make it at the same time.
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
    std::vector<PeerExchange> tensors;  // those that are not empty
    WorkBeside beside = WorkBeside::kNone;
    bool is_reachable = false;  // by all ranks
  };

  void reach_peers();
  std::vector<PeerMemory::Seen> share_control(std::string& why_not);
  void connect(std::span<const PeerMemory::Seen> seen);
  // What was said of this call; is_reachable is false where nothing was.
  Planned next(std::span<const Exchange> tensors);
  bool next_is_at_once(RankReduction reduction) const;
  void all_reduce_at_once(const PeerExchange& tensor, const PeerSum& sum, const Launch& launch);
  void all_reduce_at_once(std::span<const PeerExchange> tensors, RankReduction reduction,
                          cudaStream_t stream);
  void push(std::span<const PeerExchange> tensors, cudaStream_t stream);
  void note_failure();

  nccl::Watch& watch_;
  nccl::NcclGroup nccl_;
  std::string axis_;
  std::shared_ptr<std::byte> control_memory_, epochs_, has_failed_;
  std::unique_ptr<PeerMemory> memory_;  // null: NCCL does all
  PeerControl control_;
  std::optional<PeerCopies> copies_;
  std::deque<Planned> planned_;
  int release_ = 0;  // number of what the watch was given
};

}  // namespace genesis::cuda
