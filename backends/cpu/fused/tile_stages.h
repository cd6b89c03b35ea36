// Chains: f32 steps of a tile program that run together, a block of eight vectors at a time, with the value
// that flows from one to the next in vector registers. Each step is a stage, a function that changes the
// eight vectors and calls the next one. Further operands come from memory; results that are needed again go
// there.
//
// Made by tile_chains.cpp, run by tile_run.cpp; the stages lie in tile_f32_*.cpp. A stage never looks across
// elements, so results do not depend on where a block begins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// Its true type passes vectors, whose size is only known to code compiled for one machine
// (tile_stages-inl.h).
using StageFunction = void (*)();

struct Stage {
  StageFunction run;
  std::array<std::byte*, 2> memory;  // of the operands that are not in registers, or of the result
  std::array<bool, 2> scalar;        // this operand is one element
  std::array<bool, 2> far;           // this operand is not in a cache near by
  std::array<uint8_t, 2> element_bytes;
  bool writes;  // memory[0] is the result
  std::array<float, 2> parameters;
};

inline constexpr int kMaxStages = 64;
inline constexpr int kMaxChainMemory = 16;  // operands and results in memory

// Runs `count` stages, the last of them finish_stage(), over n elements. Blocks begin at element `head`.
using ChainFunction = void (*)(const Stage* stages, size_t count, size_t n, size_t head);
ChainFunction find_chain_runner();

StageFunction find_load_stage(DType dtype);  // f32, f16, bf16, bool
// The value stays in registers. Around the cache: the blocks of memory must be aligned to 64 bytes.
StageFunction find_store_stage(DType dtype, bool around_cache);
StageFunction finish_stage();

}  // namespace genesis::cpu
