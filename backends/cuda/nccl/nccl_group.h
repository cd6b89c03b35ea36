// Collectives between GPUs along one mesh axis, in the order of a stream. The tensors of a call form one NCCL group.
// All calls can be captured into a CUDA graph once all ranks have run or captured each of them before, in the same
// order.
#pragma once

#include "backends/collectives.h"
#include "backends/cuda/nccl/nccl_watch.h"

namespace genesis::cuda::nccl {

class NcclGroup final : public RankGroup {
 public:
  NcclGroup(Watch& watch, Comm* comm, std::string axis, int rank, int size)
      : watch_(watch), comm_(comm), axis_(std::move(axis)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void* stream) override;
  void reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void* stream) override;
  void all_gather(std::span<const Exchange> tensors, void* stream) override;
  void all_to_all(std::span<const Exchange> tensors, void* stream) override;
  void broadcast(std::span<const Exchange> tensors, int root, void* stream) override;
  void send(std::span<const Exchange> tensors, int to, void* stream) override;
  void receive(std::span<const Exchange> tensors, int from, void* stream) override;

 private:
  template <class Body>
  void together(const char* call, std::span<const Exchange> tensors, Body&& body);
  bool can_reduce(const char* call, std::span<const Exchange> tensors, RankReduction reduction);
  void copy(void* to, const void* from, int64_t bytes, void* stream);

  Watch& watch_;
  Comm* comm_;
  std::string axis_;
  int rank_, size_;
};

}  // namespace genesis::cuda::nccl
