// Finds the first NaN or infinity in a tensor.
#pragma once

#include <cmath>
#include <optional>

#include "backends/kernel.h"

namespace genesis {

struct Nonfinite {
  int64_t index;
  bool is_nan;
};

inline const char* name_of(const Nonfinite& found) { return found.is_nan ? "NaN" : "an infinity"; }

inline std::optional<Nonfinite> first_nonfinite(const TensorView& view, bool infinities_too = true) {
  if (!is_float(view.dtype)) return std::nullopt;
  return dispatch(view.dtype, [&](auto tag) -> std::optional<Nonfinite> {
    const auto* data = view.as<const typename decltype(tag)::type>();
    for (int64_t i = 0, n = view.numel(); i < n; ++i) {
      const double x = static_cast<double>(data[i]);
      if (infinities_too ? !std::isfinite(x) : std::isnan(x)) return Nonfinite{i, std::isnan(x)};
    }
    return std::nullopt;
  });
}

}  // namespace genesis
