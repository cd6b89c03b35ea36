#include "builder/containers.h"

#include <algorithm>

#include "schema/ops/elementwise/elementwise.h"

namespace genesis::nn {

size_t checked_index(std::string_view container, int64_t index, size_t size) {
  const int64_t count = static_cast<int64_t>(size), at = index < 0 ? index + count : index;
  if (at < 0 || at >= count)
    fail("there is no layer {} in this {}: it has {}, counted from 0, or from -1 at the end", index,
         container, count);
  return static_cast<size_t>(at);
}

void append_parameters(std::vector<NamedParameter>& all, size_t index,
                       const std::vector<NamedParameter>& of_layer) {
  for (const NamedParameter& mine : of_layer) {
    const bool is_listed = std::ranges::any_of(all, [&](const NamedParameter& row) {
      return row.parameter.model == mine.parameter.model && row.parameter.index == mine.parameter.index;
    });
    if (!is_listed) all.push_back({std::to_string(index) + "." + mine.name, mine.parameter});
  }
}

std::vector<NamedParameter> Sequential::named_parameters() const {
  std::vector<NamedParameter> all;
  for (size_t i = 0; i < layers_.size(); ++i) append_parameters(all, i, layers_[i].named_parameters());
  return all;
}

Value Residual::operator()(Value x) const { return x + layer_(x); }

}  // namespace genesis::nn
