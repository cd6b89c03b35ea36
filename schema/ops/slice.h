// Parts of tensors and tensors of parts.
#pragma once

#include <limits>

#include "schema/graph.h"

namespace genesis {

inline constexpr int64_t kToEnd = std::numeric_limits<int64_t>::max();

// x[start:end:step] along `axis` with Python's rules for negative and out-of-range bounds; step may be
// negative (kToEnd then means "past the first element").
Value slice(Value x, int64_t axis, int64_t start, int64_t end = kToEnd, int64_t step = 1);
// `length` elements along `axis` from `start`, where sizes may be symbolic: narrow(x, 0, 0, batch).
Value narrow(Value x, int64_t axis, Dim start, Dim length);
Value select(Value x, int64_t axis, int64_t index);  // removes the axis
Value concat(const std::vector<Value>& xs, int64_t axis);
Value stack(const std::vector<Value>& xs, int64_t axis = 0);
std::vector<Value> split(Value x, const std::vector<int64_t>& sizes, int64_t axis);
std::vector<Value> chunk(Value x, int64_t chunks, int64_t axis);  // equal parts
enum class PadMode : uint8_t { kConstant, kReflect, kReplicate, kCircular };
Value pad(Value x, std::vector<int64_t> before, std::vector<int64_t> after, double value = 0,
          PadMode mode = PadMode::kConstant);

// Start positions are data: `starts` is i64[rank], or a scalar with `axis`. Clamped so that the slice fits.
Value dynamic_slice(Value x, Value start, int64_t axis, Dim length);
// x with `update` written at position `start` along `axis` (a KV cache append). In place where the planner
// can.
Value dynamic_update_slice(Value x, Value update, Value start, int64_t axis);

}  // namespace genesis
