// Normalisations written out by hand, as most model code does, into layer_norm and rms_norm: seven passes
// over memory become one, statistics are f32, and autodiff uses their hand-written gradients.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// x * rsqrt(mean(x^2) + eps), x / sqrt(mean(x^2) + eps) -> rms_norm(x)
// d * rsqrt(mean(d^2) + eps), d / sqrt(...), with d = x - mean(x); also with var(x) without correction ->
// layer_norm(x) and then norm * weight, layer_norm + bias -> the norm with weight and bias. All over the last
// axis.
Graph fuse_norms(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
