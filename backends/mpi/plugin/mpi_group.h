// Collectives between CPU ranks by messages: every rank sends each other rank its chunk and adds the received chunks in the order
// of ranks. So sums have the same bits on all ranks, in every run, and by all_reduce as well as by reduce_scatter and all_gather.
//
// Reductions go block by block through scratch memory, allocated at the first one: kBlockBytes for each other rank.
#pragma once

#include <string>
#include <vector>

#include "backends/mpi/plugin/transfers.h"

namespace genesis::mpi {

class MpiGroup final : public RankGroup {
 public:
  // `ranks` are numbered within the run, in the order of the axis; each group has its own `tag`.
  MpiGroup(MpiWorld& world, std::string axis, std::vector<int> ranks, int tag);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  void all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void* stream) override;
  void reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void* stream) override;
  void all_gather(std::span<const Exchange> tensors, void* stream) override;
  void all_to_all(std::span<const Exchange> tensors, void* stream) override;
  void broadcast(std::span<const Exchange> tensors, int root, void* stream) override;
  void send(std::span<const Exchange> tensors, int to, void* stream) override;
  void receive(std::span<const Exchange> tensors, int from, void* stream) override;

 private:
  struct Block;

  bool can_reduce(std::span<const Exchange> tensors, RankReduction reduction, const char* call);
  void reduce_blocks(const std::vector<Block>& blocks, RankReduction reduction, const char* call);
  bool exchange_parts(std::span<const Block> blocks, const char* call);
  void add_parts(std::span<const Block> blocks, RankReduction reduction);
  bool spread_sums(std::span<const Block> blocks, const char* call);
  template <class Body>
  void with_others(Body&& body);
  int world_rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  std::string where(const char* call) const;

  MpiWorld& world_;
  std::string axis_;
  std::vector<int> ranks_;
  int rank_ = 0, tag_;
  std::vector<std::byte> scratch_;
};

}  // namespace genesis::mpi
