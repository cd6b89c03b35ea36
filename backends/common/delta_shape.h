// The sizes of a gated_delta node, and the scratch memory of its gradient, which every backend reads.
#pragma once

#include <algorithm>

#include "backends/kernel.h"

namespace genesis {

struct DeltaShape {
  int64_t batch = 0, time = 0, heads = 0, keys = 0, values = 0;  // keys, values: elements of a head's k and v

  static DeltaShape of(const TensorView& q, const TensorView& v) {
    return {q.dim(0), q.dim(1), q.dim(2), q.dim(3), v.dim(3)};
  }
  static DeltaShape of(const TensorType& q, const TensorType& v) {
    const auto size = [](const TensorType& type, int axis) { return type.shape[axis].value(); };
    return {size(q, 0), size(q, 1), size(q, 2), size(q, 3), size(v, 3)};
  }
  int64_t state() const { return keys * values; }  // elements
  // Offsets, in elements, of what a head has at a token: in q and k, in v and y, in decay and beta.
  int64_t token(int64_t entry, int64_t t, int64_t head) const { return (entry * time + t) * heads + head; }

  // The gradient goes backward over chunks of tokens: it keeps the state before each chunk, and computes those within a chunk
  // again. For each head: these states, the gradient of the state, and two vectors of the size of v.
  static constexpr int64_t kChunk = 64;
  int64_t chunk() const { return std::min(kChunk, std::max<int64_t>(1, time)); }
  int64_t chunks() const { return (time + kChunk - 1) / kChunk; }
  int64_t gradient_scratch() const { return (chunks() + chunk() + 1) * state() + 2 * values; }
};

}  // namespace genesis
