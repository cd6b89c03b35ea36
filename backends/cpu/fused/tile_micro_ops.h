// Chains: f32 steps of a tile program that run together, on blocks of eight vectors. The value that flows from one step to
// the next stays in vector registers. Each step is a micro-op: a function that changes the eight vectors and calls the next
// one. Further operands are read from memory, and a result that is needed again is written there.
//
// Made by tile_chains.cpp, run by tile_run.cpp; the functions are those of tile_f32_*.cpp. A micro-op never looks across
// elements, so results do not depend on where a block begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// Its true type passes vectors, whose size is only known to code compiled for one machine
// (tile_micro_ops-inl.h).
using MicroOpFunction = void (*)();

struct MicroOp {
  MicroOpFunction run;
  std::array<std::byte*, 2> memory;  // of the operands that are not in registers, or of the result
  std::array<bool, 2> scalar;        // this operand is one element
  std::array<bool, 2> far;           // this operand is not in a cache near by
  std::array<uint8_t, 2> element_bytes;
  bool writes;  // memory[0] is the result
  std::array<float, 2> parameters;
};

inline constexpr int kMaxMicroOps = 64;
inline constexpr int kMaxChainMemory = 16;  // operands and results in memory

// Runs `count` micro-ops, the last of them finish_chain(), over n elements. Blocks begin at element `head`.
using ChainFunction = void (*)(const MicroOp* micro_ops, size_t count, size_t n, size_t head);
ChainFunction find_chain_runner();

MicroOpFunction find_load_micro_op(DType dtype);  // f32, f16, bf16, bool
// The value stays in registers. Around the cache: the blocks of memory must be aligned to 64 bytes.
MicroOpFunction find_store_micro_op(DType dtype, bool around_cache);
MicroOpFunction finish_chain();

}  // namespace genesis::cpu
