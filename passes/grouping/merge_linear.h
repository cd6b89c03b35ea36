// Linear layers that read one x (q, k and v; gate and up) become one step. With few rows of x a layer is over
// as soon as its weights are read, and starting each by itself costs as much as the reading: a device then
// wants one large step. No weight is moved; all layers together read what they read before. How many rows are
// few is for the target's kernels to say: those that take several weights (Target::is_native).
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// swiglu(linear(x, gate), linear(x, up)) -> linear(x, gate, up) with the epilogue swiglu, where nothing else
//   reads the two
// linear(x, a), linear(x, b), ... -> linear(x, a, b, ...), alike in activation and in having a bias
Graph merge_linear(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
