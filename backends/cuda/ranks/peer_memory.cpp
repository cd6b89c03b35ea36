#include "backends/cuda/ranks/peer_memory.h"

#include <cuda.h>

#include <cstring>
#include <set>

#include "backends/cuda/runtime/libraries.h"
#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

// Returns the start of the allocation that `memory` belongs to.
std::byte* base_of(std::byte* memory) {
  static const auto range_of = driver().function<decltype(&cuMemGetAddressRange)>("cuMemGetAddressRange_v2");
  CUdeviceptr base = 0;
  size_t bytes = 0;
  if (!memory || range_of(&base, &bytes, reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS)
    return nullptr;
  return reinterpret_cast<std::byte*>(base);
}

bool handle_of(std::byte* base, cudaIpcMemHandle_t& handle) {
  if (cudaIpcGetMemHandle(&handle, base) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Reads values that append() wrote.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}
  template <class T>
  T next() {
    T value;
    if (text_.size() - at_ < sizeof value) fail("another rank says less of its memory than it should");
    std::memcpy(&value, text_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string rest() const { return text_.substr(at_); }

 private:
  const std::string& text_;
  size_t at_ = 0;
};

}  // namespace

PeerMemory::~PeerMemory() {
  for (const auto& [of, memory] : mapped_) cudaIpcCloseMemHandle(memory);
}

void PeerMemory::forget_what_was_freed() {
  std::erase_if(lent_, [](const Lent& lent) {
    cudaIpcMemHandle_t now;
    return base_of(lent.base) != lent.base || !handle_of(lent.base, now) ||
           std::memcmp(&now, &lent.handle, sizeof now) != 0;
  });
}

int32_t PeerMemory::lend(std::byte* memory, int64_t& offset) {
  std::byte* const base = base_of(memory);
  if (!base) return -1;
  offset = memory - base;
  for (size_t i = 0; i < lent_.size(); ++i)
    if (lent_[i].base == base) return static_cast<int32_t>(i);
  Lent lent{base, {}};
  if (!handle_of(base, lent.handle)) return -1;
  lent_.push_back(lent);
  return static_cast<int32_t>(lent_.size()) - 1;
}

// The text has the number of allocations and their handles, then an allocation and an offset for each address.
std::string PeerMemory::describe(std::span<std::byte* const> mine) {
  forget_what_was_freed();
  std::string places;
  for (std::byte* const memory : mine) {
    int64_t offset = 0;
    append(places, lend(memory, offset));
    append(places, offset);
  }
  std::string text;
  append(text, static_cast<int64_t>(lent_.size()));
  for (const Lent& lent : lent_) append(text, lent.handle);
  append(text, static_cast<int64_t>(mine.size()));
  return text + places;
}

std::byte* PeerMemory::open(int rank, const Handle& bytes) {
  std::byte*& memory = mapped_[{rank, bytes}];
  if (memory) return memory;
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, bytes.data(), sizeof handle);
  void* mapped = nullptr;
  if (const cudaError_t error = cudaIpcOpenMemHandle(&mapped, handle, cudaIpcMemLazyEnablePeerAccess);
      error != cudaSuccess) {
    mapped_.erase({rank, bytes});
    cudaGetLastError();
    fail("rank {} of this host cannot map the memory of rank {}: {}; --disable peer_memory does without",
         group_.rank(), rank, cudaGetErrorString(error));
  }
  return memory = static_cast<std::byte*>(mapped);
}

PeerMemory::Seen PeerMemory::read(int rank, std::span<std::byte* const> mine, const std::string& text) {
  Reader reader(text);
  std::vector<Handle> handles;
  for (auto left = reader.next<int64_t>(); left > 0; --left) {
    const auto handle = reader.next<cudaIpcMemHandle_t>();
    handles.emplace_back(reinterpret_cast<const char*>(&handle), sizeof handle);
  }
  const std::set<Handle> lent(handles.begin(), handles.end());
  std::erase_if(mapped_, [&](const auto& mapping) {
    const bool is_freed = mapping.first.first == rank && !lent.contains(mapping.first.second);
    if (is_freed) cudaIpcCloseMemHandle(mapping.second);
    return is_freed;
  });
  if (reader.next<int64_t>() != static_cast<int64_t>(mine.size()))
    fail("ranks {} and {} of this host are about to exchange different tensors", group_.rank(), rank);
  Seen seen;
  for (std::byte* const own : mine) {
    const auto place = reader.next<int32_t>();
    const auto offset = reader.next<int64_t>();
    const bool is_own = rank == group_.rank();
    seen.addresses.push_back(place < 0 ? nullptr
                             : is_own  ? own
                                       : open(rank, handles.at(static_cast<size_t>(place))) + offset);
  }
  seen.word = reader.rest();
  return seen;
}

std::vector<PeerMemory::Seen> PeerMemory::exchange(std::span<std::byte* const> mine,
                                                   const std::string& word) {
  const std::vector<std::string> texts = texts_.gather(describe(mine) + word);
  std::vector<Seen> seen;
  std::string why_not;
  try {
    for (int rank = 0; rank < group_.size(); ++rank)
      seen.push_back(read(rank, mine, texts[static_cast<size_t>(rank)]));
  } catch (const Error& error) {
    why_not = error.message();
  }
  // No rank goes on, and may free what it lends, before all have mapped it. If one of them could not, all fail.
  for (const std::string& failure : texts_.gather(why_not))
    if (!failure.empty()) fail("{}", failure);
  return seen;
}

}  // namespace genesis::cuda
