#include "backends/mpi/plugin/reduce_ranks.h"

#include <algorithm>
#include <type_traits>

namespace genesis::mpi {
namespace {

constexpr int64_t kBlock = 2048;  // elements; their accumulators stay in L1

template <class T>
constexpr bool kIsLow = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

// Chooses the accumulator of a sum; unsigned integers, since their overflow is defined.
template <class T>
constexpr auto sum_tag() {
  if constexpr (kIsLow<T>)
    return TypeTag<float>{};
  else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return TypeTag<std::make_unsigned_t<T>>{};
  else
    return TypeTag<T>{};
}

template <class T>
struct Add {
  using Accumulator = typename decltype(sum_tag<T>())::type;
  static Accumulator join(Accumulator a, Accumulator b) { return static_cast<Accumulator>(a + b); }
};
template <class T>
struct Max {
  using Accumulator = std::conditional_t<kIsLow<T>, float, T>;
  static Accumulator join(Accumulator a, Accumulator b) { return b > a || b != b ? b : a; }
};
template <class T>
struct Min {
  using Accumulator = std::conditional_t<kIsLow<T>, float, T>;
  static Accumulator join(Accumulator a, Accumulator b) { return b < a || b != b ? b : a; }
};

template <class T, class Join>
void reduce(std::span<const std::byte* const> parts, std::byte* to, int64_t count, bool is_mean) {
  using Accumulator = typename Join::Accumulator;
  Accumulator sums[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const auto part = [&](size_t rank) { return reinterpret_cast<const T*>(parts[rank]) + begin; };
    for (int64_t i = 0; i < length; ++i) sums[i] = static_cast<Accumulator>(part(0)[i]);
    for (size_t rank = 1; rank < parts.size(); ++rank)
      for (int64_t i = 0; i < length; ++i)
        sums[i] = Join::join(sums[i], static_cast<Accumulator>(part(rank)[i]));
    if constexpr (std::is_floating_point_v<Accumulator>)
      for (int64_t i = 0; is_mean && i < length; ++i) sums[i] /= static_cast<Accumulator>(parts.size());
    for (int64_t i = 0; i < length; ++i) (reinterpret_cast<T*>(to) + begin)[i] = static_cast<T>(sums[i]);
  }
}

}  // namespace

std::string why_not_reduced(DType dtype, RankReduction reduction) {
  const bool is_sum = reduction == RankReduction::kSum || reduction == RankReduction::kMean;
  if (dtype == DType::boolean && is_sum) return "ranks' bools have no sum, only max and min";
  if (!is_float(dtype) && reduction == RankReduction::kMean) return "only floats have a mean over ranks";
  return "";
}

void reduce_ranks(DType dtype, RankReduction reduction, std::span<const std::byte* const> parts,
                  std::byte* to, int64_t count) {
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (reduction) {
      case RankReduction::kSum:
      case RankReduction::kMean:
        if constexpr (!std::is_same_v<T, bool>)
          reduce<T, Add<T>>(parts, to, count, reduction == RankReduction::kMean);
        return;
      case RankReduction::kMax:
        return reduce<T, Max<T>>(parts, to, count, false);
      case RankReduction::kMin:
        return reduce<T, Min<T>>(parts, to, count, false);
    }
  });
}

}  // namespace genesis::mpi
