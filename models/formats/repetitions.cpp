#include "models/formats/repetitions.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::models {

Value repeat_by_sizes(Value x, const std::vector<Dim>& repeats) {
  if (repeats.size() != static_cast<size_t>(x.rank()))
    fail("it repeats {} axes of {}", repeats.size(), x.type().to_string());
  if (std::ranges::all_of(repeats, &Dim::is_constant)) {
    std::vector<int64_t> counts;
    for (const Dim& count : repeats) counts.push_back(count.value());
    return tile(x, counts);
  }
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] == Dim(1)) continue;
    const auto axis = static_cast<int>(i);
    const Value apart = unsqueeze(x, axis);
    Shape copies = apart.shape(), whole = x.shape();
    copies[axis] = repeats[i], whole[axis] = x.dim(axis) * repeats[i];
    x = reshape(expand(apart, copies), whole);
  }
  return x;
}

}  // namespace genesis::models
