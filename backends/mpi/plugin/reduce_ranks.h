// One tensor of what several ranks have of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "schema/core/dtype.h"
#include "schema/ranks/rank_reduction.h"

namespace genesis::mpi {

// Why ranks cannot be reduced so; empty when they can: sums and means of bool, and means of integers, have no meaning.
std::string why_not_reduced(DType dtype, RankReduction reduction);

// to[i] = parts[0][i] with parts[1][i], and so on, in this order: f16 and bf16 in f32 and rounded once, f32 and f64 as they
// are, integers wrapping. A mean divides once at the end; a NaN stays in max and min. `to` may be one of the parts.
void reduce_ranks(DType dtype, RankReduction reduction, std::span<const std::byte* const> parts,
                  std::byte* to, int64_t count);

}  // namespace genesis::mpi
