#include "backends/cuda/ranks/peer_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis::cuda {
namespace {

// Each rank lends its control memory to the others. It holds the flags by which kernels synchronize, the flags that
// streams write and wait for, and the slots into which the other ranks push their inputs of one-shot sums.
constexpr int64_t kKernelFlagBytes = kMaxPeerBlocks * kMaxPeers * sizeof(uint32_t);
constexpr int64_t kStreamFlagBytes = 4096;  // a page, more than PeerCopies needs
static_assert(PeerCopies::kFlags * sizeof(uint32_t) <= kStreamFlagBytes);

cudaStream_t cuda_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

// Peer access is switched off by NCCL's own variable, which its users know.
bool peers_are_switched_off() {
  const char* const text = std::getenv("NCCL_P2P_DISABLE");
  return text && *text && std::string_view(text) != "0";
}

// Returns whether the kernels and the copy engines support the sum: of floats up to 32 bits, at aligned addresses.
bool can_add(const PeerExchange& tensor, int ranks) {
  const DType dtype = tensor.own.dtype;
  return (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) &&
         begins_aligned(tensor, ranks);
}

bool can_add(std::span<const PeerExchange> tensors, RankReduction reduction, int ranks) {
  return (reduction == RankReduction::kSum || reduction == RankReduction::kMean) &&
         std::all_of(tensors.begin(), tensors.end(),
                     [&](const PeerExchange& t) { return can_add(t, ranks); });
}

// Returns whether the shards of all tensors together are so large that copy engines gather them faster than NCCL,
// though they synchronize more slowly.
bool is_large(std::span<const PeerExchange> shards) {
  constexpr int64_t kLarge = int64_t{4} << 20;
  int64_t bytes = 0;
  for (const PeerExchange& shard : shards) bytes += shard.own.bytes();
  return bytes >= kLarge;
}

bool have_aligned_shards(std::span<const PeerExchange> tensors, int ranks) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const PeerExchange& t) { return has_aligned_shards(t, ranks); });
}

// Returns whether no rank writes its result over its input, which other ranks may still read.
bool are_out_of_place(std::span<const PeerExchange> tensors, int ranks) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const PeerExchange& t) {
    return std::mismatch(t.at.from, t.at.from + ranks, t.at.to, std::not_equal_to<>()).first ==
           t.at.from + ranks;
  });
}

PeerSum sum_of(const Exchange& tensor, RankReduction reduction, int ranks) {
  return {tensor.dtype, tensor.count,
          reduction == RankReduction::kMean ? 1.0f / static_cast<float>(ranks) : 1.0f};
}

}  // namespace

PeerGroup::PeerGroup(nccl::Watch& watch, nccl::Comm* comm, const std::string& axis, int rank, int size,
                     bool is_one_host)
    : watch_(watch), nccl_(watch, comm, axis, rank, size), axis_(axis) {
  if (is_one_host && size > 1 && size <= kMaxPeers && !peers_are_switched_off()) reach_peers();
}

PeerGroup::~PeerGroup() {
  if (release_) watch_.forget_release(release_);
}

// Sets up peer access; all ranks come to the same result.
void PeerGroup::reach_peers() {
  std::string why_not;
  const std::vector<PeerMemory::Seen> seen = share_control(why_not);
  if (!why_not.empty() || watch_.has_failed()) {
    log_debug("GPUs along '{}' exchange all by NCCL: {}", axis_, why_not);
    memory_.reset();
    control_memory_.reset();
    return;
  }
  connect(seen);
}

std::vector<PeerMemory::Seen> PeerGroup::share_control(std::string& why_not) {
  const int device = current_device();
  const int64_t slots = 2 * size() * kSlotBytes;
  control_memory_ = allocate(device, kKernelFlagBytes + kStreamFlagBytes + slots);
  wait_for(cudaStream_t{}, "making the memory that GPUs of a host meet in");  // zero before others see it
  memory_ = std::make_unique<PeerMemory>(nccl_, device);
  std::byte* const mine = control_memory_.get();
  try {
    std::vector<PeerMemory::Seen> seen = memory_->exchange({&mine, 1}, "");
    for (const PeerMemory::Seen& other : seen)
      if (!other.addresses[0]) why_not = "a GPU cannot lend its memory";
    return seen;
  } catch (const Error& error) {
    why_not = error.message();
    return {};
  }
}

void PeerGroup::connect(std::span<const PeerMemory::Seen> seen) {
  const int device = current_device();
  epochs_ = allocate(device, kMaxPeerBlocks * sizeof(uint32_t));
  has_failed_ = allocate_pinned(sizeof(int32_t));
  auto* const has_failed = reinterpret_cast<volatile int32_t*>(has_failed_.get());
  *has_failed = 0;
  control_.rank = rank();
  control_.size = size();
  control_.epochs = reinterpret_cast<uint32_t*>(epochs_.get());
  control_.has_failed = has_failed;
  std::vector<uint32_t*> stream_flags;
  for (size_t r = 0; r < seen.size(); ++r) {
    std::byte* const memory = seen[r].addresses[0];
    control_.flags[r] = reinterpret_cast<uint32_t*>(memory);
    stream_flags.push_back(reinterpret_cast<uint32_t*>(memory + kKernelFlagBytes));
    control_.slots[r] = memory + kKernelFlagBytes + kStreamFlagBytes;
  }
  copies_.emplace(control_, device, stream_flags);
  release_ = watch_.add_release([this, has_failed] {
    *has_failed = 1;
    copies_->release();
  });
}

// Ranks tell each other the addresses of their tensors and, as a text, the work beside each exchange and the sizes. The
// sizes must be equal on all ranks. The work may differ: all ranks then take the least, so that they choose the same
// method.
void PeerGroup::plan_exchanges(std::span<const PlannedExchange> exchanges) {
  planned_.clear();
  if (!memory_ || exchanges.empty() || watch_.has_failed()) return;
  std::vector<std::byte*> mine;
  std::string sizes, beside;  // sizes of all tensors; one digit per exchange for its WorkBeside
  for (const PlannedExchange& exchange : exchanges) {
    planned_.push_back({{}, exchange.beside, true});
    for (const Exchange& tensor : exchange.tensors) {
      if (tensor.count == 0) continue;
      planned_.back().tensors.push_back({tensor, {}});
      mine.push_back(static_cast<std::byte*>(const_cast<void*>(tensor.from)));
      mine.push_back(static_cast<std::byte*>(tensor.to));
      sizes += fmt::format("{} ", tensor.bytes());
    }
    sizes += ";";
    beside += static_cast<char>('0' + static_cast<int>(exchange.beside));
  }
  const std::vector<PeerMemory::Seen> seen = memory_->exchange(mine, beside + sizes);
  if (watch_.has_failed()) return planned_.clear();
  for (size_t r = 0; r < seen.size(); ++r) {
    if (seen[r].word.size() < beside.size() || seen[r].word.substr(beside.size()) != sizes)
      fail("ranks {} and {} along '{}' are about to exchange different tensors", rank(), r, axis_);
    size_t at = 0, exchange = 0;
    for (Planned& planned : planned_) {
      planned.beside = std::min(planned.beside, static_cast<WorkBeside>(seen[r].word[exchange++] - '0'));
      for (PeerExchange& tensor : planned.tensors) {
        tensor.at.from[r] = seen[r].addresses[at++];
        tensor.at.to[r] = seen[r].addresses[at++];
        planned.is_reachable &= tensor.at.from[r] && tensor.at.to[r];
      }
    }
  }
}

PeerGroup::Planned PeerGroup::next(std::span<const Exchange> tensors) {
  if (planned_.empty()) return {};
  Planned planned = std::move(planned_.front());
  planned_.pop_front();
  size_t at = 0;
  for (const Exchange& tensor : tensors) {
    if (tensor.count == 0) continue;
    GENESIS_ASSERT(at < planned.tensors.size() && planned.tensors[at].own.from == tensor.from &&
                   planned.tensors[at].own.to == tensor.to);
    planned.tensors[at++].own = tensor;
  }
  planned.is_reachable &= !watch_.has_failed();
  return planned;
}

void PeerGroup::note_failure() {
  if (const std::string why = copies_->failure(); !why.empty())
    watch_.fail(fmt::format("along '{}': {}", axis_, why));
}

void PeerGroup::all_reduce_in_kernels(const PeerExchange& tensor, const PeerSum& sum, const Launch& launch) {
  if (tensor.own.bytes() <= kOneShotBytes)
    return start_one_shot(control_, sum, tensor.own.from, tensor.own.to, launch);
  PeerTensors alone;
  alone.add(tensor.at, sum.count);
  start_two_shot(control_, sum, alone, launch.stream);
}

// Reduces many tensors of one dtype in one kernel: each kernel takes some 5 us to synchronize, however small its
// tensors are.
void PeerGroup::all_reduce_in_kernels(std::span<const PeerExchange> tensors, RankReduction reduction,
                                      cudaStream_t stream) {
  if (tensors.size() == 1)
    return all_reduce_in_kernels(tensors[0], sum_of(tensors[0].own, reduction, size()), {.stream = stream});
  for (size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    PeerSum sum = sum_of(tensors[begin].own, reduction, size());
    sum.count = 0;
    PeerTensors together;
    for (; end < tensors.size() && together.count < PeerTensors::kMaxTensors; ++end) {
      const Exchange& own = tensors[end].own;
      if (own.dtype != sum.dtype) break;
      together.add(tensors[end].at, own.count);
      sum.count += own.count;
    }
    start_two_shot(control_, sum, together, stream);
  }
}

// Returns whether the next call was planned and other work waits for it, so that a kernel which synchronizes with its
// peers is the fastest method.
bool PeerGroup::next_runs_in_kernels(RankReduction reduction) const {
  if (planned_.empty() || watch_.has_failed()) return false;
  const Planned& planned = planned_.front();
  return planned.is_reachable && planned.beside == WorkBeside::kNone &&
         can_add(planned.tensors, reduction, size());
}

bool PeerGroup::all_reduce_adding(const Exchange& tensor, const void* addend, void* stream, bool early) {
  if (!next_runs_in_kernels(RankReduction::kSum)) return false;
  const Planned planned = next({&tensor, 1});
  for (const PeerExchange& one : planned.tensors)  // no iteration if the tensor is empty
    all_reduce_in_kernels(one, {one.own.dtype, one.own.count, 1, addend},
                          {.stream = cuda_stream(stream), .early = early});
  return true;
}

void PeerGroup::all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void* stream) {
  const bool in_kernels = next_runs_in_kernels(reduction);
  const Planned planned = next(tensors);
  if (in_kernels) {
    all_reduce_in_kernels(planned.tensors, reduction, cuda_stream(stream));
  } else if (planned.is_reachable && can_add(planned.tensors, reduction, size())) {
    copies_->all_reduce(planned.tensors, reduction == RankReduction::kMean, cuda_stream(stream));
    note_failure();
  } else {
    nccl_.all_reduce(tensors, reduction, stream);
  }
}

void PeerGroup::reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void* stream) {
  const Planned planned = next(tensors);
  const bool by_peers = planned.is_reachable && can_add(planned.tensors, reduction, size()) &&
                        have_aligned_shards(planned.tensors, size());
  if (by_peers && planned.beside != WorkBeside::kNone) {
    copies_->reduce_scatter(planned.tensors, reduction == RankReduction::kMean, cuda_stream(stream));
    note_failure();
  } else if (by_peers && are_out_of_place(planned.tensors, size())) {
    for (const PeerExchange& tensor : planned.tensors)
      start_scatter(control_, sum_of(tensor.own, reduction, size()), tensor.at, cuda_stream(stream));
  } else {
    nccl_.reduce_scatter(tensors, reduction, stream);
  }
}

void PeerGroup::all_gather(std::span<const Exchange> tensors, void* stream) {
  const Planned planned = next(tensors);
  const bool spare_inputs =
      std::all_of(planned.tensors.begin(), planned.tensors.end(),
                  [&](const PeerExchange& t) { return results_spare_inputs(t, size()); });
  if (planned.is_reachable && planned.beside != WorkBeside::kComputeBound && spare_inputs) {
    push(planned.tensors, cuda_stream(stream));
  } else if (planned.is_reachable && (planned.beside != WorkBeside::kNone || is_large(planned.tensors))) {
    copies_->all_gather(planned.tensors, cuda_stream(stream));
    note_failure();
  } else {
    nccl_.all_gather(tensors, stream);
  }
}

void PeerGroup::push(std::span<const PeerExchange> tensors, cudaStream_t stream) {
  for (size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    PeerTensors together;
    for (; end < tensors.size() && together.count < PeerTensors::kMaxTensors; ++end)
      together.add(tensors[end].at, tensors[end].own.bytes() / kPeerAccessBytes);
    start_push(control_, together, stream);
  }
}

void PeerGroup::all_to_all(std::span<const Exchange> tensors, void* stream) {
  nccl_.all_to_all(tensors, stream);
}

void PeerGroup::broadcast(std::span<const Exchange> tensors, int root, void* stream) {
  nccl_.broadcast(tensors, root, stream);
}

void PeerGroup::send(std::span<const Exchange> tensors, int to, void* stream) {
  nccl_.send(tensors, to, stream);
}

void PeerGroup::receive(std::span<const Exchange> tensors, int from, void* stream) {
  nccl_.receive(tensors, from, stream);
}

}  // namespace genesis::cuda
