// Exchanges by kernels that read and write other ranks' memory over NVLink. All ranks start the same kernels in the
// same order, each in a stream. Elements are f32, f16 or bf16, added in f32 in the order of ranks and rounded once, so all
// ranks get the same bits. One shot and two shots are what vLLM and TensorRT-LLM call them; they differ from a ring (NCCL)
// in latency: a meeting of the ranks takes some 2 us.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/ranks/peer_control.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/dtype.h"

namespace genesis::cuda {

// What is summed, of `count` elements, multiplied by `scale` (1 / ranks for a mean); then `addend` is added,
// which is the same on all ranks and not what is written. Null: nothing.
struct PeerSum {
  DType dtype = DType::f32;
  int64_t count = 0;
  float scale = 1;
  const void* addend = nullptr;
};

// Every rank pushes all it has to all others, and adds what they push. Flags travel inside of the data (NCCL's protocol LL), so
// that nothing waits for anything but the data: twice the bytes in half the time. For up to kOneShotBytes; `to` may be `from`; both start at
// multiples of 16 bytes. Where `launch` is early, it starts before the kernel ahead has ended, and lets the one behind it start at
// once: what that asks of memory comes while ranks meet.
void start_one_shot(const PeerControl& peers, const PeerSum& sum, const void* from, void* to, Launch launch);

// Every rank reads a part of all others' `from` of each tensor, adds, and writes the sum to all ranks' `to`, which may be
// `from`. All start at multiples of 16 bytes. sum.count is that of all tensors; an addend is for one alone.
void start_two_shot(const PeerControl& peers, const PeerSum& sum, const PeerTensors& tensors,
                    cudaStream_t stream);

// Of all ranks' `from`, with sum.count elements for each rank, every rank adds up its own part and writes it to its own `to`,
// which is not `from`. All start at multiples of 16 bytes, parts too.
void start_scatter(const PeerControl& peers, const PeerSum& sum, const PeerTensor& tensor,
                   cudaStream_t stream);

// Every rank writes its `from` of each tensor to its place in all ranks' `to`, which no rank's `from` overlaps but in that place.
// All start at multiples of 16 bytes, of which each tensor has a whole number: these are counted.
void start_push(const PeerControl& peers, const PeerTensors& tensors, cudaStream_t stream);

// Elements of one tensor, of which other ranks' have been copied here.
struct PeerPiece {
  const std::byte* own;
  int64_t pulled;  // where the others' begin, behind PulledPieces::others
  std::byte* to;   // may be `own`
  int64_t count;
};
struct PulledPieces {
  static constexpr int kMaxPieces = 64;
  const std::byte* others[kMaxPeers] = {};  // by rank; this rank's is not read
  PeerPiece pieces[kMaxPieces] = {};
  int count = 0;
};

// Each piece's sum, in one kernel that meets nobody. All begin at multiples of 16 bytes.
void start_sum_of_pieces(const PeerControl& peers, DType dtype, float scale, const PulledPieces& pieces,
                         cudaStream_t stream);

// What all ranks have of a tensor, which this rank copies out of their memory: rank r's to `to` + r * `stride`.
struct SmallTensor {
  const void* from[kMaxPeers] = {};  // null: not copied
  int64_t bytes = 0;                 // of each rank
  std::byte* to = nullptr;
  int64_t stride = 0;
};
struct SmallTensors {
  static constexpr int kMaxTensors = 32;
  SmallTensor tensors[kMaxTensors] = {};
  int count = 0;
};

// Copies in one kernel, which meets nobody: a copy engine takes some 6 us for each tensor, however small. All begin at
// multiples of 16 bytes, strides too.
void start_gather(const PeerControl& peers, const SmallTensors& tensors, cudaStream_t stream);

}  // namespace genesis::cuda
