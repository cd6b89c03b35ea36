// The program that a megakernel runs (megakernel.h): its instructions and their operands.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/runtime/launch.h"
#include "schema/encoding/weight_format.h"

namespace genesis::cuda {

// Two elements and their tag.
using TaggedWord = uint2;

// A vector that an instruction reads: words of another instruction, or memory as it lies.
struct VectorOperand {
  const TaggedWord* words = nullptr;
  const void* memory = nullptr;
  uint32_t tag = 0;
};

struct LayerOperand {
  const void *weight = nullptr, *bias = nullptr;  // [n, k], or its quants; [n] or null
  const void* scales = nullptr;                   // of quants, [n, k / 32]
  void* y = nullptr;                              // [n], or null: only instructions read it
  int32_t first = 0, n = 0;  // row of the instruction at which the layer begins; its rows
};

// One instruction of the program, as the kernel reads it.
struct alignas(16) Instruction {
  static constexpr int kMaxLayers = 4;
  enum Kind : int32_t { kProduct, kAttention };

  Kind kind = kProduct;
  uint32_t tag = 0;           // of what it gives; below kTags
  int32_t shift = 0;          // of the blocks, so that not always the same ones have more to do
  TaggedWord* out = nullptr;  // null: no instruction reads it

  // Products. A unit is two elements of y; the rows of a chunk, at most 16 (8 of gate and 8 of up), lie in
  // the ring together, cut into 1 << log_parts ranges of k.
  int32_t n = 0, k = 0, layers = 0, swiglu = 0, wide = 0;       // wide: y is f32, and there is no `out`
  WeightFormat format = WeightFormat::kPlain;                   // kPlain: bf16
  int32_t units = 0, log_slices = 0, log_parts = 0, ahead = 1;  // warps that share a chunk; chunks under way
  float eps = 0;
  const void* norm = nullptr;
  VectorOperand x, addend;
  LayerOperand layer[kMaxLayers];

  // Attention: a block has one query head and one of `splits` ranges of keys.
  int32_t heads = 0, key_heads = 0, splits = 0, window = 0;  // window 0: it sees all keys
  float scale = 1;
  VectorOperand q, k_new, v_new;
  const void *q_norm = nullptr, *k_norm = nullptr;  // [size]: rms_norm of each head first; or null
  float q_eps = 0, k_eps = 0;
  void *k_cache = nullptr, *v_cache = nullptr, *y = nullptr;
  TaggedWord* split_words = nullptr;  // [head][split][size + 2] words of one f32
};

inline constexpr uint32_t kTags = 1u << 10;

// Where block 0 is, in the host's pinned memory: the instruction that its consumers compute and the one whose
// weights it asks for, which is ahead, counted from 1. What a run that fails leaves there names the step.
struct ProgramCounter {
  int32_t computed = 0, fed = 0;
};

struct MegakernelProgram {
  const Instruction* instructions = nullptr;
  int32_t count = 0;
  int32_t size = 64;      // of a head
  int32_t positions = 0;  // of the caches; 0: no attention
  const int64_t* start = nullptr;
  double theta = 0;
  const double* frequencies = nullptr;  // [size / 2] of rope, where they are an input; null: those of theta
  uint32_t* run = nullptr;              // {number of this run, blocks that are done with it}; zero at first
  int32_t vector_bytes = 0;             // of the longest x in shared memory
  int32_t ring_bytes = 0;               // filled in when it starts
  FaultReport fault;                    // of a start out of range; of the first attention
  volatile ProgramCounter* counter = nullptr;
};

// Quantised weights are multiplied with x in bytes (device/byte_product.h). Their k is a multiple of this.
inline constexpr int64_t kQuantizedDepth = 128;

inline constexpr int kConsumerWarps = 8;  // of a block

}  // namespace genesis::cuda
