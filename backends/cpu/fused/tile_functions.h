// The tile functions: functions over a run of elements that fits the L1 cache. Inside a tile an element has one of four lane
// types: f32 (also for f16 and bf16), f64, i64 (for every integer type) and bool as a byte 0 or 1. Formulas on f32 are micro-ops
// of chains instead (tile_micro_ops.h). Functions are looked up once, when a plan is made.
#pragma once

#include "backends/cpu/fused/tile_micro_ops.h"
#include "backends/kernel.h"

namespace genesis::cpu {

enum class LaneType : uint8_t { kF32, kF64, kI64, kBool };

LaneType lane_of(DType dtype);
DType dtype_of_lane(LaneType lane);

// The argument of a tile function.
struct TileCall {
  std::array<const void*, 3> in;
  void* out;
  int64_t n;                   // number of elements
  std::array<bool, 3> scalar;  // true if this operand is one element for the whole run
  const double* parameters;    // the formula's parameters, such as the bounds of clamp
  Fault* fault;                // for elements that have no result, such as an integer divided by 0
};
using TileFunction = void (*)(const TileCall&);

// A formula of schema/ops/elementwise/formulas.h for operands of type `lane` (for `where`: its two branches). On f32 it is a set
// of micro-ops, indexed by the operand that is in registers, and `run` is null; on other lanes it is `run`. `result` is the lane
// type of the result.
struct Formula {
  TileFunction run = nullptr;
  std::array<MicroOpFunction, 3> micro_ops{};
  LaneType result = LaneType::kF32;

  explicit operator bool() const { return run || micro_ops[0]; }
};
// Returns an empty Formula if the lane type does not support it.
Formula find_formula(std::string_view name, LaneType lane);

// Loads an integer `dtype` element by element from memory into its lane type; find_store() is the inverse and wraps around. Both
// return null for every dtype but integers narrower than i64.
TileFunction find_load(DType dtype);
TileFunction find_store(DType dtype);
TileFunction find_convert(LaneType from, LaneType to);
TileFunction find_copy(LaneType lane);  // also broadcasts a scalar operand
// Fills the tile with parameters[0]. If parameters[1] is 1, parameters[0] holds the bits of an i64.
TileFunction find_constant(LaneType lane);
// Wraps i64 values around to the range of `dtype`; null if every i64 fits.
TileFunction find_wrap(DType dtype);

// Copies bytes around the cache, which pays off if the destination is not read soon.
void stream_block(const void* from, void* to, size_t bytes);
// To be called before another thread reads what this thread has copied with stream_block().
void finish_streams();

// The tables behind find_formula(): tile_f32_*.cpp define the f32 ones, tile_scalar.cpp those of the other lanes.
Formula find_f32_unary(std::string_view name);
Formula find_f32_binary(std::string_view name);
Formula find_f64(std::string_view name);
Formula find_i64(std::string_view name);
Formula find_bool(std::string_view name);

}  // namespace genesis::cpu
