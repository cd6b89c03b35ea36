#include "backends/mpi/plugin/mpi_group.h"

#include <algorithm>
#include <cstring>

#include "backends/mpi/plugin/reduce_ranks.h"

namespace genesis::mpi {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;

const std::byte* bytes_of(const Exchange& tensor) { return static_cast<const std::byte*>(tensor.from); }
std::byte* result_of(const Exchange& tensor) { return static_cast<std::byte*>(tensor.to); }
int64_t element_bytes(const Exchange& tensor) { return static_cast<int64_t>(size_of(tensor.dtype)); }
int64_t part_bytes(const Exchange& tensor) { return tensor.count * element_bytes(tensor); }

void copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}

}  // namespace

// The block of one tensor that a reduction handles at a time: rank r adds up the elements from begin + r * stride on, `part` of
// them unless the tensor ends earlier.
struct MpiGroup::Block {
  const Exchange* tensor;
  int64_t begin, stride, part, end;
  bool is_shared;  // all ranks get all sums (all_reduce), in place; else each rank gets its own, at `begin`

  int64_t at(int rank) const { return begin + rank * stride; }
  int64_t count(int rank) const { return std::clamp<int64_t>(end - at(rank), 0, part); }
  int64_t bytes(int rank) const { return count(rank) * element_bytes(*tensor); }
  const std::byte* from(int rank) const { return bytes_of(*tensor) + at(rank) * element_bytes(*tensor); }
  std::byte* to(int rank) const {
    return result_of(*tensor) + (is_shared ? at(rank) : begin) * element_bytes(*tensor);
  }
};

MpiGroup::MpiGroup(MpiWorld& world, std::string axis, std::vector<int> ranks, int tag)
    : world_(world), axis_(std::move(axis)), ranks_(std::move(ranks)), tag_(tag) {
  rank_ = static_cast<int>(std::find(ranks_.begin(), ranks_.end(), world.rank()) - ranks_.begin());
}

std::string MpiGroup::where(const char* call) const { return std::string(call) + " along '" + axis_ + "'"; }

// Calls body(rank) for each other rank of the group, beginning with the next rank, so that ranks do not all begin with the same
// one.
template <class Body>
void MpiGroup::with_others(Body&& body) {
  for (int i = 1; i < size(); ++i) body((rank_ + i) % size());
}

bool MpiGroup::can_reduce(std::span<const Exchange> tensors, RankReduction reduction, const char* call) {
  for (const Exchange& tensor : tensors)
    if (const std::string why = why_not_reduced(tensor.dtype, reduction); !why.empty())
      world_.fail(where(call) + ": " + why);
  return !world_.has_failed();
}

void MpiGroup::all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void*) {
  if (!can_reduce(tensors, reduction, "all_reduce")) return;
  std::vector<Block> blocks;
  for (const Exchange& tensor : tensors) {
    const int64_t longest = kBlockBytes / element_bytes(tensor);
    for (int64_t begin = 0; begin < tensor.count;) {
      const int64_t part = std::min(longest, (tensor.count - begin + size() - 1) / size());
      const int64_t end = std::min(tensor.count, begin + part * size());
      blocks.push_back({&tensor, begin, part, part, end, true});
      begin = end;
    }
  }
  reduce_blocks(blocks, reduction, "all_reduce");
}

void MpiGroup::reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void*) {
  if (!can_reduce(tensors, reduction, "reduce_scatter")) return;
  std::vector<Block> blocks;
  for (const Exchange& tensor : tensors) {
    const int64_t longest = kBlockBytes / element_bytes(tensor);
    for (int64_t begin = 0; begin < tensor.count; begin += longest)
      blocks.push_back({&tensor, begin, tensor.count, std::min(longest, tensor.count - begin),
                        tensor.count * size(), false});
  }
  reduce_blocks(blocks, reduction, "reduce_scatter");
}

// Reduces as many blocks at once as fit into the scratch memory.
void MpiGroup::reduce_blocks(const std::vector<Block>& blocks, RankReduction reduction, const char* call) {
  for (size_t first = 0, last = 0; first < blocks.size(); first = last) {
    int64_t bytes = 0;
    for (; last < blocks.size() && (last == first || bytes + blocks[last].bytes(0) <= kBlockBytes); ++last)
      bytes += blocks[last].bytes(0);
    const std::span<const Block> now(blocks.data() + first, last - first);
    if (!exchange_parts(now, call)) return;
    add_parts(now, reduction);
    if (now[0].is_shared && !spread_sums(now, call)) return;
  }
}

bool MpiGroup::exchange_parts(std::span<const Block> blocks, const char* call) {
  if (size() == 1) return true;
  if (scratch_.empty()) scratch_.resize(static_cast<size_t>(kBlockBytes * (size() - 1)));
  Transfers transfers(world_, tag_);
  std::byte* at = scratch_.data();
  for (const Block& block : blocks)
    with_others([&](int rank) {
      transfers.receive(at, block.bytes(rank_), world_rank(rank));
      at += block.bytes(rank_);
    });
  for (const Block& block : blocks)
    with_others([&](int rank) { transfers.send(block.from(rank), block.bytes(rank), world_rank(rank)); });
  return transfers.wait(where(call));
}

void MpiGroup::add_parts(std::span<const Block> blocks, RankReduction reduction) {
  const std::byte* at = scratch_.data();
  std::vector<const std::byte*> parts(ranks_.size());
  for (const Block& block : blocks) {
    parts[static_cast<size_t>(rank_)] = block.from(rank_);
    with_others([&](int rank) {
      parts[static_cast<size_t>(rank)] = at;
      at += block.bytes(rank_);
    });
    reduce_ranks(block.tensor->dtype, reduction, parts, block.to(rank_), block.count(rank_));
  }
}

bool MpiGroup::spread_sums(std::span<const Block> blocks, const char* call) {
  Transfers transfers(world_, tag_);
  for (const Block& block : blocks)
    with_others([&](int rank) { transfers.receive(block.to(rank), block.bytes(rank), world_rank(rank)); });
  for (const Block& block : blocks)
    with_others([&](int rank) { transfers.send(block.to(rank_), block.bytes(rank_), world_rank(rank)); });
  return transfers.wait(where(call));
}

void MpiGroup::all_gather(std::span<const Exchange> tensors, void*) {
  if (world_.has_failed()) return;
  Transfers transfers(world_, tag_);
  for (const Exchange& tensor : tensors) {
    const int64_t bytes = part_bytes(tensor);
    std::byte* mine = result_of(tensor) + rank_ * bytes;
    copy(mine, bytes_of(tensor), bytes);
    with_others([&](int rank) {
      transfers.receive(result_of(tensor) + rank * bytes, bytes, world_rank(rank));
      transfers.send(mine, bytes, world_rank(rank));
    });
  }
  transfers.wait(where("all_gather"));
}

void MpiGroup::all_to_all(std::span<const Exchange> tensors, void*) {
  if (world_.has_failed()) return;
  Transfers transfers(world_, tag_);
  for (const Exchange& tensor : tensors) {
    const int64_t bytes = part_bytes(tensor);
    with_others([&](int rank) {
      transfers.receive(result_of(tensor) + rank * bytes, bytes, world_rank(rank));
      transfers.send(bytes_of(tensor) + rank * bytes, bytes, world_rank(rank));
    });
    copy(result_of(tensor) + rank_ * bytes, bytes_of(tensor) + rank_ * bytes, bytes);
  }
  transfers.wait(where("all_to_all"));
}

void MpiGroup::broadcast(std::span<const Exchange> tensors, int root, void*) {
  if (world_.has_failed()) return;
  Transfers transfers(world_, tag_);
  for (const Exchange& tensor : tensors) {
    if (rank_ != root) {
      transfers.receive(result_of(tensor), part_bytes(tensor), world_rank(root));
      continue;
    }
    with_others([&](int rank) { transfers.send(bytes_of(tensor), part_bytes(tensor), world_rank(rank)); });
    copy(result_of(tensor), bytes_of(tensor), part_bytes(tensor));
  }
  transfers.wait(where("broadcast"));
}

void MpiGroup::send(std::span<const Exchange> tensors, int to, void*) {
  if (world_.has_failed()) return;
  Transfers transfers(world_, tag_);
  for (const Exchange& tensor : tensors) transfers.send(bytes_of(tensor), part_bytes(tensor), world_rank(to));
  transfers.wait(where("send"));
}

void MpiGroup::receive(std::span<const Exchange> tensors, int from, void*) {
  if (world_.has_failed()) return;
  Transfers transfers(world_, tag_);
  for (const Exchange& tensor : tensors)
    transfers.receive(result_of(tensor), part_bytes(tensor), world_rank(from));
  transfers.wait(where("receive"));
}

}  // namespace genesis::mpi
