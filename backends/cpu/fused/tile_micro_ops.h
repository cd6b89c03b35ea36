// Chains: f32 steps of a tile program that run together, on blocks of eight vectors. The value that flows from one step to the
// next stays in vector registers. Each step is a micro-op: a function that changes the eight vectors and calls the next one.
// Further operands are read from memory, and a result that is needed again is written there.
//
// tile_chains.cpp makes chains, tile_run.cpp runs them, and tile_f32_*.cpp define the micro-ops. A micro-op never combines
// different elements, so results do not depend on where a block begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// An opaque function pointer: the true type takes vectors, whose size is only known to code compiled for one instruction set
// (tile_micro_ops-inl.h).
using MicroOpFunction = void (*)();

// A micro-op with its operands.
struct MicroOp {
  MicroOpFunction run;
  std::array<std::byte*, 2> memory;  // operands that are not in registers, or the result
  std::array<bool, 2> scalar;        // true if this operand is one element
  std::array<bool, 2> far;           // true if this operand is not in a near cache
  std::array<uint8_t, 2> element_bytes;
  bool writes;                      // true if memory[0] is the result
  std::array<float, 2> parameters;  // the formula's parameters, such as the bounds of clamp
};

// Limits of a chain, which bound its arrays on the stack; tile_chains.cpp begins another chain where one would exceed them.
inline constexpr int kMaxMicroOps = 64;
inline constexpr int kMaxChainMemory = 16;  // distinct operands and results in memory

// Runs `count` micro-ops, the last of which is find_end_micro_op(), over n elements. The first whole block begins at element
// `head`, where the results are aligned to 64 bytes if they are written around the cache.
using ChainFunction = void (*)(const MicroOp* micro_ops, size_t count, size_t n, size_t head);
ChainFunction find_chain_runner();

// Returns the micro-op that loads a value of this dtype into registers: f32, f16, bf16 or bool.
MicroOpFunction find_load_micro_op(DType dtype);
// Returns the micro-op that writes the value to memory; it also stays in registers. With `around_cache` the blocks in memory must
// be aligned to 64 bytes.
MicroOpFunction find_store_micro_op(DType dtype, bool around_cache);
// Returns the micro-op that ends a chain: it calls no other.
MicroOpFunction find_end_micro_op();

}  // namespace genesis::cpu
