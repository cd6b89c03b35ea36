// The norms of decoders.
#pragma once

#include "builder/containers.h"
#include "builder/scope.h"
#include "models/families/decoder/design.h"

namespace genesis::models {

// Makes a norm over the last axis, of `size` elements.
nn::Layer make_norm(const Scope& scope, int64_t size, NormKind kind, double eps);

// Makes a norm of [batch, time, heads, head_size] over the last axis with weights [heads, head_size]. Only kinds without a bias.
nn::Layer make_own_norms(const Scope& scope, int64_t heads, int64_t head_size, NormKind kind, double eps);

}  // namespace genesis::models
