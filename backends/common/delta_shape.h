// The sizes of a gated_delta or mamba2 node, and the scratch memory of its gradient, which every backend reads. In mamba2, q is c, k is b
// and v is x.
#pragma once

#include <algorithm>

#include "backends/kernel.h"

namespace genesis {

struct DeltaShape {
  int64_t batch = 0, time = 0, heads = 0, keys = 0, values = 0;  // keys, values: elements of a head's k and v
  int64_t groups = 0;  // each q and k serves heads / groups heads, which follow each other

  static DeltaShape of(const TensorView& q, const TensorView& v) {
    return {q.dim(0), q.dim(1), v.dim(2), q.dim(3), v.dim(3), q.dim(2)};
  }
  static DeltaShape of(const TensorType& q, const TensorType& v) {
    const auto size = [](const TensorType& type, int axis) { return type.shape[axis].value(); };
    return {size(q, 0), size(q, 1), size(v, 2), size(q, 3), size(v, 3), size(q, 2)};
  }
  int64_t state() const { return keys * values; }  // elements
  // Returns the number of the vector that a head has at a token, among those of v, y, decay and beta.
  int64_t token(int64_t entry, int64_t t, int64_t head) const { return (entry * time + t) * heads + head; }
  // The same among those of q and k.
  int64_t key_token(int64_t entry, int64_t t, int64_t head) const {
    return (entry * time + t) * groups + head * groups / heads;
  }

  // The gradient goes backward over chunks of tokens: it keeps the state before each chunk, and computes those within a chunk
  // again. For each head: these states, the gradient of the state, and two vectors of the size of v.
  static constexpr int64_t kChunk = 64;
  int64_t chunk() const { return std::min(kChunk, std::max<int64_t>(1, time)); }
  int64_t chunks() const { return (time + kChunk - 1) / kChunk; }
  int64_t gradient_scratch() const { return (chunks() + chunk() + 1) * state() + 2 * values; }
  // Elements of the gradients of q and k of each head, whose sums over a group's heads are the results.
  bool has_shares() const { return groups != heads; }  // else the gradients of the heads are the results
  int64_t shares_of_heads() const { return !has_shares() ? 0 : 2 * batch * time * heads * keys; }
  int64_t all_gradient_scratch() const { return batch * heads * gradient_scratch() + shares_of_heads(); }
};

}  // namespace genesis
