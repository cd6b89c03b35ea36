#include "backends/cuda/runtime/graph_loop.h"

#include <algorithm>

#include "backends/cuda/runtime/graph_choice.h"

namespace genesis::cuda {
namespace {

constexpr int kMaxCopies = 32;  // 32 copies are 1 KiB of the 4 KiB of parameters that a kernel may have

struct Copies {
  LoopCopy each[kMaxCopies];
};

template <class Word>
__device__ void copy_words(std::byte* to, const std::byte* from, int64_t bytes) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x, words = bytes / sizeof(Word);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += stride)
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
}

// Block row y makes copy y.
__global__ void __launch_bounds__(kThreads) copy_each(Copies copies, const int64_t* number) {
  const LoopCopy copy = copies.each[blockIdx.y];
  std::byte* const to = copy.to + (copy.is_row ? *number * copy.bytes : 0);
  const auto bits = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(copy.from) |
                    static_cast<uintptr_t>(copy.bytes);
  if (bits % sizeof(uint4) == 0) return copy_words<uint4>(to, copy.from, copy.bytes);
  if (bits % sizeof(uint32_t) == 0) return copy_words<uint32_t>(to, copy.from, copy.bytes);
  copy_words<unsigned char>(to, copy.from, copy.bytes);
}

__device__ bool has_fault(const LoopControl& loop) {
  return *static_cast<volatile int32_t*>(&loop.fault.fault->set) != 0;
}

// Sets whether step `next` runs.
__device__ void decide(const LoopControl& loop, cudaGraphConditionalHandle handle, bool wanted,
                       int64_t next) {
  bool goes_on = wanted && next < *loop.most;
  if (goes_on && next == loop.rows) loop.fault(next, loop.rows);
  goes_on = goes_on && !has_fault(loop);
  *loop.number = next;
  cudaGraphSetConditional(handle, goes_on);
}

__global__ void begin_loop(LoopControl loop, cudaGraphConditionalHandle handle) {
  decide(loop, handle, *loop.condition, 0);
}
__global__ void end_step(LoopControl loop, cudaGraphConditionalHandle handle) {
  decide(loop, handle, *loop.goes_on, *loop.number + 1);
}
// Runs even if nobody reads the count: a kernel that starts early cannot wait for a conditional node.
__global__ void end_loop(LoopControl loop) {
  if (loop.count) *loop.count = *loop.number;
}

}  // namespace

void copy_all(const Launch& launch, std::span<const LoopCopy> copies, const int64_t* number) {
  for (size_t first = 0; first < copies.size(); first += kMaxCopies) {
    const auto part = copies.subspan(first, std::min<size_t>(kMaxCopies, copies.size() - first));
    Copies given{};
    std::ranges::copy(part, given.each);
    int64_t most = 0;
    for (const LoopCopy& copy : part) most = std::max(most, copy.bytes);
    const int64_t blocks =
        std::clamp<int64_t>(blocks_for(most, kThreads * static_cast<int64_t>(sizeof(uint4))), 1,
                            int64_t{launch.multiprocessors} * 4);
    copy_each<<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(part.size())), kThreads, 0,
                launch.stream>>>(given, number);
  }
}

void capture_loop(const Launch& launch, const LoopControl& loop, const LoopStep& step) {
  const cudaGraphConditionalHandle handle = make_choice(launch.stream);
  begin_loop<<<1, 1, 0, launch.stream>>>(loop, handle);
  capture_while(launch.stream, handle, [&](cudaStream_t inside) {
    Launch own = launch;
    own.stream = inside;
    own.can_use_pdl = own.early = false;
    step.run(own);
    step.finish(own);
    end_step<<<1, 1, 0, inside>>>(loop, handle);
    step.pass_on(own);
  });
  end_loop<<<1, 1, 0, launch.stream>>>(loop);
}

}  // namespace genesis::cuda
