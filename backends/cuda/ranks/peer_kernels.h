// Exchanges by kernels that read and write other ranks' memory over NVLink. All ranks start the same kernels in the
// same order, each in a stream. Elements are f32, f16 or bf16. They are added in f32 in the order of ranks and
// rounded once, so all ranks get the same bits. The terms one shot and two shots are those of vLLM and TensorRT-LLM.
// The difference from a ring (NCCL) is latency: a meeting of the ranks takes some 2 us.
#pragma once

#include <cuda_runtime_api.h>

#include "backends/cuda/ranks/peer_control.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/dtype.h"

namespace genesis::cuda {

// A sum of `count` elements, multiplied by `scale` (1 / ranks for a mean), plus `addend`. The addend is the same on
// all ranks and does not overlap the output; null: nothing is added.
struct PeerSum {
  DType dtype = DType::f32;
  int64_t count = 0;
  float scale = 1;
  const void* addend = nullptr;
};

// All-reduce in which every rank pushes its whole input to all others and adds what they push. Flags travel inside
// the data (NCCL's LL protocol), so that a rank waits for nothing but the data: twice the bytes in half the time.
// Takes up to kOneShotBytes; `to` may be `from`; both start at multiples of 16 bytes. If `launch` is early, the
// kernel starts before the kernel ahead has ended, and lets the next one start at once, so that the loads of that one
// overlap with the meeting.
void start_one_shot(const PeerControl& peers, const PeerSum& sum, const void* from, void* to, Launch launch);

// All-reduce in which every rank reads its shard of all ranks' `from` of each tensor, adds, and writes the sum to all
// ranks' `to`, which may be `from`. All start at multiples of 16 bytes. sum.count is the total over all tensors; an
// addend requires that there is only one.
void start_two_shot(const PeerControl& peers, const PeerSum& sum, const PeerTensors& tensors,
                    cudaStream_t stream);

// Reduce-scatter: all ranks' `from` has sum.count elements for each rank; every rank adds up its own shard and writes
// it to its own `to`, which is not `from`. All start at multiples of 16 bytes, shards too.
void start_scatter(const PeerControl& peers, const PeerSum& sum, const PeerTensor& tensor,
                   cudaStream_t stream);

// All-gather: every rank writes its `from` of each tensor to its place in all ranks' `to`. No rank's `from` overlaps
// a `to` except in that place. All start at multiples of 16 bytes. Each tensor is a whole number of 16-byte accesses,
// and the counts are in these.
void start_push(const PeerControl& peers, const PeerTensors& tensors, cudaStream_t stream);

// A range of elements of one tensor; the other ranks' values have been copied here.
struct PeerPiece {
  const std::byte* own;
  int64_t pulled;  // offset of the other ranks' values in PulledPieces::others
  std::byte* to;   // may be `own`
  int64_t count;
};
struct PulledPieces {
  static constexpr int kMaxPieces = 64;
  const std::byte* others[kMaxPeers] = {};  // by rank; this rank's is not read
  PeerPiece pieces[kMaxPieces] = {};
  int count = 0;
};

// Writes each piece's sum, in one kernel that does not synchronize with other ranks. All start at multiples of 16
// bytes.
void start_sum_of_pieces(const PeerControl& peers, DType dtype, float scale, const PulledPieces& pieces,
                         cudaStream_t stream);

// A tensor that this rank copies out of all ranks' memory: rank r's goes to `to` + r * `stride`.
struct SmallTensor {
  const void* from[kMaxPeers] = {};  // null: not copied
  int64_t bytes = 0;                 // bytes per rank
  std::byte* to = nullptr;
  int64_t stride = 0;
};
struct SmallTensors {
  static constexpr int kMaxTensors = 32;
  SmallTensor tensors[kMaxTensors] = {};
  int count = 0;
};

// Copies the tensors in one kernel that does not synchronize with other ranks: a copy engine takes some 6 us per
// tensor, however small. All tensors start at multiples of 16 bytes, and strides are such multiples.
void start_gather(const PeerControl& peers, const SmallTensors& tensors, cudaStream_t stream);

}  // namespace genesis::cuda
