// A chain of steps of one row each, done by one kernel that stays on the whole chip from the first to the
// last: decoding a token. Such steps wait for memory alone, and a kernel each would spend more time starting
// and filling the memory's queues than computing.
//
// Every multiprocessor has one block. One warp of it streams the block's rows of all weights, in the order in
// which they will be wanted, through a ring in shared memory, whatever the others are doing. The other warps
// do the steps: they wait for the vector that the step reads, multiply it with rows as they come, and hand on
// the block's share of the result. Blocks never wait for each other as such. A result is handed on in words
// of 8 bytes that carry two elements and a tag which no other step of this or the run before has, so that
// whoever reads a word sees whether it is the one; storing a word is all that it takes to pass it on.
// (NCCL hands data between GPUs in such words and calls it the LL protocol.)
//
// All blocks must be on the chip at once, which a cooperative launch makes sure of.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/launch.h"

namespace genesis::cuda {

// Two elements and their tag.
using ChainWord = uint2;

// A vector that a link reads: words of another link, or memory as it lies.
struct ChainVector {
  const ChainWord* words = nullptr;
  const void* memory = nullptr;
  uint32_t tag = 0;
};

struct ChainLayer {
  const void *weight = nullptr, *bias = nullptr;  // [n, k]; [n] or null
  void* y = nullptr;                              // [n], or null: only links read it
  int32_t first = 0, n = 0;                       // row of the link at which the layer begins; its rows
};

// One step, as the kernel reads it.
struct alignas(16) ChainStep {
  static constexpr int kMostLayers = 4;
  enum Kind : int32_t { kProduct, kAttention };

  Kind kind = kProduct;
  uint32_t tag = 0;          // of what it gives; below kChainTags
  int32_t shift = 0;         // of the blocks, so that not always the same ones have more to do
  ChainWord* out = nullptr;  // null: no link reads it

  // Products. A unit is two elements of y; the rows of a chunk, at most 16 (8 of gate and 8 of up), lie in
  // the ring together, cut into 1 << log_parts ranges of k.
  int32_t n = 0, k = 0, layers = 0, swiglu = 0;
  int32_t units = 0, log_slices = 0, log_parts = 0, ahead = 1;  // warps that share a chunk; chunks under way
  float eps = 0;
  const void* norm = nullptr;
  ChainVector x, addend;
  ChainLayer layer[kMostLayers];

  // Attention: a block has one query head and one of `splits` ranges of keys.
  int32_t heads = 0, key_heads = 0, splits = 0;
  float scale = 1;
  ChainVector q, k_new, v_new;
  const void *q_norm = nullptr, *k_norm = nullptr;  // [size]: rms_norm of each head first; or null
  float q_eps = 0, k_eps = 0;
  void *k_cache = nullptr, *v_cache = nullptr, *y = nullptr;
  ChainWord* split_words = nullptr;  // [head][split][size + 2] words of one f32
};

inline constexpr uint32_t kChainTags = 1u << 10;

// Where block 0 of a chain is, in the host's pinned memory: the step that its warps compute and the one whose
// weights it asks for, which is ahead, counted from 1. What a run that fails leaves there names the step.
struct ChainPlace {
  int32_t computed = 0, fed = 0;
};

struct ChainProgram {
  const ChainStep* steps = nullptr;
  int32_t count = 0;
  int32_t size = 64;      // of a head
  int32_t positions = 0;  // of the caches; 0: no attention
  const int64_t* start = nullptr;
  double theta = 0;
  uint32_t* run = nullptr;   // {number of this run, blocks that are done with it}; zero at first
  int32_t vector_bytes = 0;  // of the longest x in shared memory
  int32_t ring_bytes = 0;    // filled in when it starts
  FaultReport fault;         // of a start out of range; of the first attention
  volatile ChainPlace* place = nullptr;
};

// What the shapes alone decide.
constexpr int kChainWarps = 8;
void plan_product(ChainStep& step, int blocks);
int chain_splits(int heads, int blocks);
int64_t split_words(int heads, int size, int blocks);

// Whether there is room for a chunk of the step's weights while another is used.
bool ring_takes(const ChainProgram& program, const ChainStep& step);
// Whether the current device can hold such a kernel: shared memory, cooperative launches.
bool can_start_chains();
void start_chain(const Launch& launch, const ChainProgram& program);

}  // namespace genesis::cuda
