#include "backends/cuda/ranks/peer_copies.h"

#include <cuda.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

// The memory for one rank's pulled data: as much as a bucket of gradients. A sum kernel waits until other kernels
// give it space, so one should do for all of it.
constexpr int64_t kPulledBytes = int64_t{32} << 20, kMinPulled = int64_t{1} << 20;
constexpr uint32_t kHere = 1;
// Tensors of up to this size (a layer's norms, biases, and weights of keys and values) are copied faster by one
// kernel, and added by every rank for itself, than by copy engines one by one.
constexpr int64_t kSmallBytes = int64_t{256} << 10, kSmallMemory = int64_t{4} << 20;

const std::byte* bytes_of(const void* memory) { return static_cast<const std::byte*>(memory); }
std::byte* bytes_of(void* memory) { return static_cast<std::byte*>(memory); }

// The shard of a tensor that a rank adds up in an all_reduce, in bytes.
struct Span {
  int64_t first, bytes;
};
Span shard_of(const Exchange& tensor, int rank, int size) {
  const int64_t all = tensor.bytes();
  const int64_t accesses = (all + kPeerAccessBytes - 1) / kPeerAccessBytes;
  const int64_t shard = (accesses + size - 1) / size * kPeerAccessBytes;
  const int64_t first = std::min(all, shard * rank);
  return {first, std::min(all, first + shard) - first};
}

int64_t padded(int64_t bytes) { return (bytes + kPeerAccessBytes - 1) / kPeerAccessBytes * kPeerAccessBytes; }

float scale_of(bool is_mean, int ranks) { return is_mean ? 1.0f / static_cast<float>(ranks) : 1.0f; }

// Splits tensors into small and large ones, in the same way on all ranks.
struct BySize {
  std::vector<PeerExchange> small, large;  // small: sorted by dtype; at most kSmallMemory bytes

  explicit BySize(std::span<const PeerExchange> tensors, auto&& may_be_small) {
    int64_t left = kSmallMemory;  // bytes of the memory for small tensors that are still free
    for (const PeerExchange& tensor : tensors) {
      const bool is_small =
          tensor.own.bytes() <= kSmallBytes && padded(tensor.own.bytes()) <= left && may_be_small(tensor);
      if (is_small) left -= padded(tensor.own.bytes());
      (is_small ? small : large).push_back(tensor);
    }
    std::stable_sort(small.begin(), small.end(),
                     [](const PeerExchange& a, const PeerExchange& b) { return a.own.dtype < b.own.dtype; });
  }
  explicit BySize(std::span<const PeerExchange> tensors)
      : BySize(tensors, [](const PeerExchange&) { return true; }) {}
};

}  // namespace

bool begins_aligned(const PeerExchange& tensor, int ranks) {
  const auto is_aligned = [](const void* memory) {
    return reinterpret_cast<uintptr_t>(memory) % kPeerAccessBytes == 0;
  };
  return std::all_of(tensor.at.from, tensor.at.from + ranks, is_aligned) &&
         std::all_of(tensor.at.to, tensor.at.to + ranks, is_aligned);
}

bool has_aligned_shards(const PeerExchange& tensor, int ranks) {
  return tensor.own.bytes() % kPeerAccessBytes == 0 && begins_aligned(tensor, ranks);
}

bool results_spare_inputs(const PeerExchange& gathered, int ranks) {
  const int64_t bytes = gathered.own.bytes();
  bool are_spared = has_aligned_shards(gathered, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::byte* const from = bytes_of(gathered.at.from[rank]);
    const std::byte* const to = bytes_of(gathered.at.to[rank]);
    are_spared &= from == to + rank * bytes || from + bytes <= to || from >= to + ranks * bytes;
  }
  return are_spared;
}

PeerCopies::PeerCopies(const PeerControl& peers, int device, std::span<uint32_t* const> flags)
    : peers_(peers),
      rank_(peers.rank),
      size_(peers.size),
      memory_(allocate(device, (size_ - 1) * kPulledBytes)),
      for_small_(allocate(device, size_ * kSmallMemory)),
      release_stream_(make_stream()) {
  std::copy(flags.begin(), flags.end(), flags_);
  std::byte* memory = memory_.get();
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) pulled_.others[rank] = std::exchange(memory, memory + kPulledBytes);
}

void PeerCopies::note(bool is_well, const char* what) {
  if (!is_well && failure_.empty()) failure_ = std::string("CUDA refused ") + what;
}

void PeerCopies::copy(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
  if (bytes == 0 || to == from) return;
  note(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream) == cudaSuccess,
       "to copy another rank's memory");
}

// Each rank sets its flag at all others and resets theirs here. A flag is set again only after the next meeting of
// another kind, and so after it was reset.
void PeerCopies::meet(Meeting meeting, cudaStream_t stream) {
  static const auto write = driver().function<decltype(&cuStreamWriteValue32)>("cuStreamWriteValue32_v2");
  static const auto wait = driver().function<decltype(&cuStreamWaitValue32)>("cuStreamWaitValue32_v2");
  const auto flag = [&](int reader, int writer) {
    return reinterpret_cast<CUdeviceptr>(flags_[reader] + meeting * kMaxPeers + writer);
  };
  bool is_well = true;
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_)
      is_well &= write(stream, flag(peer, rank_), kHere, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    is_well &= wait(stream, flag(rank_, peer), kHere, CU_STREAM_WAIT_VALUE_AND) == CUDA_SUCCESS;
    is_well &= write(stream, flag(rank_, peer), 0, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS;
  }
  note(is_well, "to let streams of several ranks wait for each other");
}

void PeerCopies::release() {
  cudaMemsetAsync(flags_[rank_], kHere, kFlags * sizeof(uint32_t), release_stream_.get());
}

void PeerCopies::pull(const PeerExchange& tensor, int64_t first, int64_t bytes, std::byte* to, bool is_mean,
                      cudaStream_t stream) {
  const DType dtype = tensor.own.dtype;
  const float scale = scale_of(is_mean, size_);
  if (dtype != dtype_ || scale != scale_) finish_sums(stream);
  dtype_ = dtype;
  scale_ = scale;
  for (int64_t now; bytes > 0; first += now, to += now, bytes -= now) {
    if (pulled_.count == PulledPieces::kMaxPieces ||
        kPulledBytes - pulled_bytes_ < std::min(bytes, kMinPulled))
      finish_sums(stream);
    now = std::min(bytes, kPulledBytes - pulled_bytes_);
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_)
        copy(const_cast<std::byte*>(pulled_.others[rank]) + pulled_bytes_,
             bytes_of(tensor.at.from[rank]) + first, now, stream);
    pulled_.pieces[pulled_.count++] = {bytes_of(tensor.own.from) + first, pulled_bytes_, to,
                                       now / static_cast<int64_t>(size_of(dtype))};
    pulled_bytes_ += padded(now);
  }
}

void PeerCopies::finish_sums(cudaStream_t stream) {
  if (pulled_.count > 0) start_sum_of_pieces(peers_, dtype_, scale_, pulled_, stream);
  pulled_.count = 0;
  pulled_bytes_ = 0;
}

void PeerCopies::gather(std::span<const SmallTensor> tensors, cudaStream_t stream) {
  for (size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    end = std::min(tensors.size(), begin + SmallTensors::kMaxTensors);
    SmallTensors batch;
    batch.count = static_cast<int>(end - begin);
    std::copy(tensors.begin() + begin, tensors.begin() + end, batch.tensors);
    start_gather(peers_, batch, stream);
  }
}

void PeerCopies::bring(std::span<const PeerExchange> small, int64_t shard, cudaStream_t stream) {
  std::vector<SmallTensor> tensors;
  std::byte* to = for_small_.get();
  for (const auto& [own, at] : small) {
    SmallTensor& next = tensors.emplace_back();
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_) next.from[rank] = bytes_of(at.from[rank]) + shard * own.bytes();
    next.bytes = own.bytes();
    next.to = std::exchange(to, to + padded(own.bytes()));
    next.stride = kSmallMemory;
  }
  gather(tensors, stream);
}

void PeerCopies::add_brought(std::span<const PeerExchange> small, int64_t shard, bool is_mean,
                             cudaStream_t stream) {
  const float scale = scale_of(is_mean, size_);
  PulledPieces batch;
  for (int rank = 0; rank < size_; ++rank) batch.others[rank] = for_small_.get() + rank * kSmallMemory;
  int64_t at = 0;
  for (size_t i = 0; i < small.size(); ++i) {
    const Exchange& own = small[i].own;
    batch.pieces[batch.count++] = {bytes_of(own.from) + shard * own.bytes(),
                                   std::exchange(at, at + padded(own.bytes())), bytes_of(own.to), own.count};
    const bool is_last = i + 1 == small.size() || small[i + 1].own.dtype != own.dtype;
    if (batch.count < PulledPieces::kMaxPieces && !is_last) continue;
    start_sum_of_pieces(peers_, own.dtype, scale, batch, stream);
    batch.count = 0;
  }
}

void PeerCopies::gather_small(std::span<const PeerExchange> small, cudaStream_t stream) {
  std::vector<SmallTensor> tensors;
  for (const auto& [own, at] : small) {
    SmallTensor& next = tensors.emplace_back();
    std::copy_n(at.from, size_, next.from);
    next.bytes = next.stride = own.bytes();
    next.to = bytes_of(own.to);
    if (own.from == next.to + rank_ * next.stride) next.from[rank_] = nullptr;
  }
  gather(tensors, stream);
}

void PeerCopies::all_reduce(std::span<const PeerExchange> tensors, bool is_mean, cudaStream_t stream) {
  const BySize by_size(tensors);
  meet(kReady, stream);
  bring(by_size.small, 0, stream);
  for (const PeerExchange& tensor : by_size.large) {
    const auto [first, bytes] = shard_of(tensor.own, rank_, size_);
    pull(tensor, first, bytes, bytes_of(tensor.own.to) + first, is_mean, stream);
  }
  finish_sums(stream);
  meet(kSummed, stream);
  add_brought(by_size.small, 0, is_mean, stream);
  for (const PeerExchange& tensor : by_size.large)
    for (int next = 1; next < size_; ++next) {
      const int peer = (rank_ + next) % size_;
      const auto [first, bytes] = shard_of(tensor.own, peer, size_);
      copy(bytes_of(tensor.own.to) + first, bytes_of(tensor.at.to[peer]) + first, bytes, stream);
    }
  meet(kDone, stream);
}

// If the result starts where the input does, another rank may still have to pull this memory. The sum is then written
// to this rank's shard of the input and copied when all ranks are done.
void PeerCopies::reduce_scatter(std::span<const PeerExchange> tensors, bool is_mean, cudaStream_t stream) {
  const auto place = [&](const Exchange& own) {
    return own.to == own.from ? bytes_of(own.to) + rank_ * own.bytes() : bytes_of(own.to);
  };
  const BySize by_size(tensors);
  meet(kReady, stream);
  bring(by_size.small, rank_, stream);
  for (const PeerExchange& tensor : by_size.large)
    pull(tensor, rank_ * tensor.own.bytes(), tensor.own.bytes(), place(tensor.own), is_mean, stream);
  finish_sums(stream);
  meet(kDone, stream);
  add_brought(by_size.small, rank_, is_mean, stream);
  for (const PeerExchange& tensor : by_size.large)
    copy(tensor.own.to, place(tensor.own), tensor.own.bytes(), stream);
}

// Other ranks pull large tensors out of the result. An input at its start must be copied to its place first, because
// another rank's shard will overwrite it.
void PeerCopies::all_gather(std::span<const PeerExchange> tensors, cudaStream_t stream) {
  const BySize by_size(tensors,
                       [&](const PeerExchange& tensor) { return results_spare_inputs(tensor, size_); });
  for (const auto& [own, at] : by_size.large)
    copy(bytes_of(own.to) + rank_ * own.bytes(), own.from, own.bytes(), stream);
  meet(kReady, stream);
  gather_small(by_size.small, stream);
  for (const auto& [own, at] : by_size.large)
    for (int next = 1; next < size_; ++next) {
      const int peer = (rank_ + next) % size_;
      const int64_t first = peer * own.bytes();
      copy(bytes_of(own.to) + first, bytes_of(at.to[peer]) + first, own.bytes(), stream);
    }
  meet(kDone, stream);
}

}  // namespace genesis::cuda
