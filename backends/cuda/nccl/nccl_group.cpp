#include "backends/cuda/nccl/nccl_group.h"

#include <fmt/format.h>

namespace genesis::cuda::nccl {
namespace {

cudaStream_t on(void* stream) { return static_cast<cudaStream_t>(stream); }
size_t count_of(const Exchange& tensor) { return static_cast<size_t>(tensor.count); }
const std::byte* from_of(const Exchange& tensor, int64_t shard = 0) {
  return static_cast<const std::byte*>(tensor.from) + shard * tensor.bytes();
}
std::byte* to_of(const Exchange& tensor, int64_t shard = 0) {
  return static_cast<std::byte*>(tensor.to) + shard * tensor.bytes();
}

}  // namespace

// Calls body(tensor) for each tensor that is not empty, as one NCCL group. Pure data movement counts in bytes.
template <class Body>
void NcclGroup::together(const char* call, std::span<const Exchange> tensors, Body&& body) {
  watch_.call(call, [&] {
    Result result = api().group_start();
    for (const Exchange& tensor : tensors)
      if (result == kSuccess && tensor.count > 0) result = body(tensor);
    const Result ended = api().group_end();
    return result == kSuccess ? ended : result;
  });
}

bool NcclGroup::can_reduce(const char* call, std::span<const Exchange> tensors, RankReduction reduction) {
  for (const Exchange& tensor : tensors)
    if (const Arithmetic how = arithmetic(tensor.dtype, reduction); !how.why_not.empty())
      watch_.fail(fmt::format("{} along '{}': {}", call, axis_, how.why_not));
  return !watch_.has_failed();
}

void NcclGroup::copy(void* to, const void* from, int64_t bytes, void* stream) {
  if (to == from || bytes == 0 || watch_.has_failed()) return;
  const cudaError_t error =
      cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, on(stream));
  if (error != cudaSuccess)
    watch_.fail(fmt::format("copying along '{}': {}", axis_, cudaGetErrorString(error)));
}

void NcclGroup::all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void* stream) {
  if (!can_reduce("all_reduce", tensors, reduction)) return;
  together("all_reduce", tensors, [&](const Exchange& t) {
    const Arithmetic how = arithmetic(t.dtype, reduction);
    return api().all_reduce(t.from, t.to, count_of(t), how.type, how.reduction, comm_, on(stream));
  });
}

// If the output starts where the input does, NCCL writes the result into this rank's shard of the input, which it
// allows, and the result is copied from there.
void NcclGroup::reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void* stream) {
  if (!can_reduce("reduce_scatter", tensors, reduction)) return;
  const auto place = [&](const Exchange& t) { return t.to == t.from ? to_of(t, rank_) : to_of(t); };
  together("reduce_scatter", tensors, [&](const Exchange& t) {
    const Arithmetic how = arithmetic(t.dtype, reduction);
    return api().reduce_scatter(t.from, place(t), count_of(t), how.type, how.reduction, comm_, on(stream));
  });
  for (const Exchange& t : tensors) copy(t.to, place(t), t.bytes(), stream);
}

void NcclGroup::all_gather(std::span<const Exchange> tensors, void* stream) {
  for (const Exchange& t : tensors)
    if (t.from == t.to) copy(to_of(t, rank_), t.from, t.bytes(), stream);
  together("all_gather", tensors, [&](const Exchange& t) {
    const void* from = t.from == t.to ? to_of(t, rank_) : t.from;
    return api().all_gather(from, t.to, static_cast<size_t>(t.bytes()), kUint8, comm_, on(stream));
  });
}

void NcclGroup::all_to_all(std::span<const Exchange> tensors, void* stream) {
  together("all_to_all", tensors, [&](const Exchange& t) {
    const auto bytes = static_cast<size_t>(t.bytes());
    Result result = kSuccess;
    for (int peer = 0; peer < size_ && result == kSuccess; ++peer) {
      result = api().send(from_of(t, peer), bytes, kUint8, peer, comm_, on(stream));
      if (result == kSuccess) result = api().receive(to_of(t, peer), bytes, kUint8, peer, comm_, on(stream));
    }
    return result;
  });
}

void NcclGroup::broadcast(std::span<const Exchange> tensors, int root, void* stream) {
  together("broadcast", tensors, [&](const Exchange& t) {
    return api().broadcast(t.from, t.to, static_cast<size_t>(t.bytes()), kUint8, root, comm_, on(stream));
  });
}

void NcclGroup::send(std::span<const Exchange> tensors, int to, void* stream) {
  together("send", tensors, [&](const Exchange& t) {
    return api().send(t.from, static_cast<size_t>(t.bytes()), kUint8, to, comm_, on(stream));
  });
}

void NcclGroup::receive(std::span<const Exchange> tensors, int from, void* stream) {
  together("receive", tensors, [&](const Exchange& t) {
    return api().receive(t.to, static_cast<size_t>(t.bytes()), kUint8, from, comm_, on(stream));
  });
}

}  // namespace genesis::cuda::nccl
