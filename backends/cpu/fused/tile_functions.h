// The vocabulary of the tile engine: functions over a run of elements that lies in the first cache. Inside a
// tile an element is held in one of four lanes: f32 (also for f16 and bf16), f64, i64 (for every integer
// type) and bool as a byte 0 or 1. f32 formulas are micro-ops of chains instead (tile_micro_ops.h). Looked up once,
// when a plan is made.
#pragma once

#include "backends/cpu/fused/tile_micro_ops.h"
#include "backends/kernel.h"

namespace genesis::cpu {

enum class LaneType : uint8_t { kF32, kF64, kI64, kBool };

LaneType lane_of(DType dtype);
DType dtype_of_lane(LaneType lane);

struct TileCall {
  std::array<const void*, 3> in;
  void* out;
  int64_t n;
  std::array<bool, 3> scalar;  // this operand is one element
  const double* parameters;
  Fault* fault;
};
using TileFunction = void (*)(const TileCall&);

// A function of schema/ops/elementwise/formulas.h on operands of `lane` (where: its two branches). `result` is the lane
// of what it writes. On f32 it is a micro-op, by the operand that is in registers; null where there is none.
struct Formula {
  TileFunction run = nullptr;
  std::array<MicroOpFunction, 3> micro_ops{};
  LaneType result = LaneType::kF32;

  explicit operator bool() const { return run || micro_ops[0]; }
};
Formula find_formula(std::string_view name, LaneType lane);

// Element by element from memory of an integer `dtype` to its lane, and back (wrapping); null where memory
// and lane are the same.
TileFunction find_load(DType dtype);
TileFunction find_store(DType dtype);
TileFunction find_convert(LaneType from, LaneType to);
TileFunction find_copy(LaneType lane);      // spreads a scalar
TileFunction find_constant(LaneType lane);  // parameters[0]; its bits are an i64 where parameters[1] is 1
// i64 to i64, keeping only what `dtype` can hold.
TileFunction find_wrap(DType dtype);

// Copies whole tiles around the cache: pays when the destination will not be read soon.
void stream_copy(const void* from, void* to, size_t bytes);
// Before another thread reads what this one has streamed.
void finish_streams();

// Parts of the tables above, by file: of f32 tile_f32_*.cpp, of the other lanes tile_scalar.cpp.
Formula find_f32_unary(std::string_view name);
Formula find_f32_binary(std::string_view name);
Formula find_f64(std::string_view name);
Formula find_i64(std::string_view name);
Formula find_bool(std::string_view name);

}  // namespace genesis::cpu
