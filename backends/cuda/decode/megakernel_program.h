// The program of a megakernel (megakernel.h): its instructions and their operands.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/device/route_choice.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/encoding/weight_format.h"

namespace genesis::cuda {

// Two elements and their tag.
using TaggedWord = uint2;

// A vector that an instruction reads: words of another instruction, or plain memory.
struct VectorOperand {
  const TaggedWord* words = nullptr;
  const void* memory = nullptr;
  uint32_t tag = 0;
};

struct LayerOperand {
  const void *weight = nullptr, *bias = nullptr;  // [n, k], or its quants; [n] or null
  const void* scales = nullptr;                   // scales of quants, [n, k / 32]
  void* y = nullptr;                              // [n], or null if only instructions read it
  int32_t first = 0, n = 0;  // row of the instruction at which the layer starts; the layer's rows
};

// One instruction of the program, in the format that the kernel reads.
struct alignas(16) Instruction {
  static constexpr int kMaxLayers = 4;
  enum Kind : int32_t { kProduct, kAttention };

  Kind kind = kProduct;
  uint32_t tag = 0;           // tag of its results; below kTags
  int32_t shift = 0;          // rotates the blocks, so that extra work is not always on the same ones
  TaggedWord* out = nullptr;  // null: no instruction reads it

  // Products. A unit is two elements of y. The rows of a chunk, at most 16 (8 of gate and 8 of up), are in the ring
  // together, split into 1 << log_ranges ranges of k.
  int32_t n = 0, k = 0, layers = 0, swiglu = 0, wide = 0;  // wide: y is f32, a word of `out` has one element
  WeightFormat format = WeightFormat::kPlain;              // kPlain: bf16
  // Log_slices: log2 of the warps that share a chunk; ahead: chunks in flight.
  int32_t units = 0, log_slices = 0, log_ranges = 0, ahead = 1;
  float eps = 0;
  const void* norm = nullptr;
  VectorOperand x, addend;
  LayerOperand layer[kMaxLayers];

  // A mixture is two products. The first one (swiglu) has the rows of gate and up of all chosen experts, one expert after the other.
  // The second one weighs: its x is the first one's result times the factors, and its ranges of k are the chosen experts.
  int32_t chosen = 0;       // a power of two, at most kMaxChosen; 0: a plain product
  int32_t expert_rows = 0;  // rows that an expert has in layer[i].weight
  int16_t weighs = 0;
  int16_t whole =
      0;  // rows of a chunk lie in the ring as in memory, so that one copy takes all that are neighbors
  VectorOperand logits;  // f32, one for each expert to choose from
  RouteRule rule;

  // Attention: a block has one query head and one of `splits` ranges of keys.
  int32_t heads = 0, key_heads = 0, splits = 0, window = 0;  // window 0: all keys are visible
  float scale = 1;
  VectorOperand q, k_new, v_new;
  const void *q_norm = nullptr, *k_norm = nullptr;  // [size]: weight of an rms_norm of each head; or null
  float q_eps = 0, k_eps = 0;
  void *k_cache = nullptr, *v_cache = nullptr, *y = nullptr;
  TaggedWord* split_words = nullptr;  // [head][split][size + 2] words with one f32 each
};

inline constexpr uint32_t kTags = 1u << 10;
// A mixture takes a second tag, for the result of its first product: its own one plus this.
inline constexpr uint32_t kTagsOfInstructions = kTags / 2;
inline constexpr int kMaxChosen = 8, kMaxRouted = 256;  // experts of a token, and those to choose from

// The progress of block 0, in the host's pinned memory: the instruction that its consumers compute and the one whose
// weights it loads, which is ahead, counted from 1. After a failed run the values identify the step.
struct ProgramCounter {
  int32_t computed = 0, fed = 0;
};

struct MegakernelProgram {
  const Instruction* instructions = nullptr;
  int32_t count = 0;
  int32_t size = 64;      // elements per head
  int32_t positions = 0;  // length of the caches; 0: no attention
  const int64_t* start = nullptr;
  double theta = 0;
  const double* frequencies = nullptr;  // [size / 2], if rope's frequencies are an input; null: from theta
  uint32_t* run = nullptr;              // {number of this run, blocks that have finished it}; zero at first
  int32_t vector_bytes = 0;             // bytes of the longest x in shared memory
  int32_t ring_bytes = 0;               // set at launch
  FaultReport fault;                    // reports a start that is out of range for the first attention
  volatile ProgramCounter* counter = nullptr;
};

// Quantized weights are multiplied with x in bytes (device/byte_product.h). Their k is a multiple of this.
inline constexpr int64_t kQuantizedDepth = 128;

inline constexpr int kConsumerWarps = 8;  // per block

}  // namespace genesis::cuda
