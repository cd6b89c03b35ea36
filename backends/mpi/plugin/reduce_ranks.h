// Reduces the tensors of several ranks to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "schema/core/dtype.h"
#include "schema/ranks/rank_reduction.h"

namespace genesis::mpi {

// Returns why this reduction is impossible; empty: it is possible. Sums and means of bools, and means of integers, have no
// meaning.
std::string why_not_reduced(DType dtype, RankReduction reduction);

// Computes to[i] from parts[0][i], parts[1][i] and so on, in this order. f16 and bf16 are accumulated in f32 and rounded once,
// f32 and f64 in their own precision, and integers wrap around. A mean divides once at the end. Max and min keep a NaN. `to` may
// be one of the parts.
void reduce_ranks(DType dtype, RankReduction reduction, std::span<const std::byte* const> parts,
                  std::byte* to, int64_t count);

}  // namespace genesis::mpi
