// Compares two models side by side: `Difference` of tools/viz/page/data.d.ts.
#pragma once

#include "schema/graph/model.h"
#include "schema/messages/progress.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

// `before_page` and `after_page`: the results of model_data(), which give the places of entry points.
Json difference_data(const Model& before, const Json& before_page, const Model& after, const Json& after_page,
                     Tables& tables, const OnProgress& progress = {});

// The differences between the values of two tensors of one type.
struct ValueDifference {
  bool same_bits = true;
  double max_abs = 0;  // NaN: a value is not finite
  double cosine = 0;   // NaN: one of them is all zeros, or not finite
};
ValueDifference compare_values(const Tensor& a, const Tensor& b);

}  // namespace genesis::viz
