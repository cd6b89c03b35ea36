// Tests sort, argsort and topk: they are stable, NaN is greatest, and gradients go back to where elements came from.
#include "schema/ops/tensor/sort.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

// Returns values and indices of the first k along `axis`.
Refs sorted(const Ref& x, int64_t axis, bool descending, int64_t k) {
  const auto at = static_cast<size_t>(axis);
  std::vector<int64_t> shape = x.shape;
  shape[at] = k;
  Ref values = ref_zeros(shape), indices = ref_zeros(shape);
  const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  for (int64_t i = 0; i < values.numel(); ++i) {
    std::vector<int64_t> place = unravel(i, shape);
    const int64_t rank = place[at];
    std::vector<std::pair<double, int64_t>> row;
    for (place[at] = 0; place[at] < x.shape[at]; ++place[at])
      row.emplace_back(x[ravel(place, x.shape)], place[at]);
    std::stable_sort(row.begin(), row.end(), [&](const auto& a, const auto& b) {
      return descending ? less(b.first, a.first) : less(a.first, b.first);
    });
    values[i] = row[static_cast<size_t>(rank)].first;
    indices[i] = static_cast<double>(row[static_cast<size_t>(rank)].second);
  }
  return {values, indices};
}

void check_sort(const std::string& name, const CaseInput& x, int64_t axis, bool gradient = true) {
  for (bool descending : {false, true})
    check({.name = "sort_" + name + (descending ? "_down" : "_up"),
           .inputs = {x},
           .build =
               [=](const Inputs& in) {
                 const auto [values, indices] = sort(in[0], axis, descending);
                 return Outputs{values, indices, argsort(in[0], axis, descending)};
               },
           .reference =
               [=](const Refs& in) {
                 Refs y = sorted(in[0], axis, descending, in[0].dim(axis));
                 y.push_back(y[1]);
                 return y;
               },
           .gradient = gradient,
           .low_gradient = false});  // numbers that tie in 16 bits
}

TEST(Sort, Sort) {
  check_sort("rows", real({3, 20}), 1);
  check_sort("columns", real({20, 3}), 0);
  check_sort("middle", real({2, 9, 3}), 1);
  check_sort("long", real({3, 700}), 1, false);
  check_sort("equal", real_data({2, 6}, {1, 1, 0, 1, 0, 0, 2, 2, 2, -0.0, 0.0, -0.0}), 1, false);
  check_sort("nan", real_data({1, 6}, {kNan, 1, kInf, -kInf, kNan, 0}), 1, false);
  check_sort("integers", integers({5, 30}, -9, 9, DType::i8), 1);
  check_sort("unsigned", integers({5, 30}, 0, 256, DType::u8), 1);
  check_sort("bools", booleans({3, 9}), 1);
  check_sort("none", real({3, 0}), 1);
}

TEST(Sort, TopK) {
  const auto topk_case = [](const std::string& name, const CaseInput& x, int64_t k, int64_t axis,
                            bool gradient) {
    for (bool largest : {true, false})
      check({.name = "topk_" + name + (largest ? "_max" : "_min"),
             .inputs = {x},
             .build =
                 [=](const Inputs& in) {
                   const auto [values, indices] = topk(in[0], k, axis, largest);
                   return Outputs{values, indices};
                 },
             .reference = [=](const Refs& in) { return sorted(in[0], axis, largest, k); },
             .gradient = gradient});
  };
  topk_case("rows", real({3, 20}), 4, 1, true);
  topk_case("columns", real({20, 3}), 2, 0, true);
  topk_case("all", real({2, 5}), 5, 1, true);
  topk_case("none", real({2, 5}), 0, 1, true);
  topk_case("few_of_many", real({2, 3000}), 7, 1, false);
  topk_case("ties", real_data({1, 8}, {3, 1, 3, 3, 2, 1, 3, 1}), 3, 1, false);
  topk_case("nan", real_data({1, 5}, {1, kNan, kInf, kNan, 2}), 3, 1, false);
}

TEST(Sort, Scalar) {
  check({.name = "sort_scalar",
         .inputs = {real({})},
         .build =
             [](const Inputs& in) {
               return Outputs{sort(in[0]).values, topk(in[0], 1).indices};
             },
         .reference =
             [](const Refs& in) {
               return Refs{in[0], ref_zeros({})};
             }});
}

TEST(Sort, Errors) {
  const auto fails = [](const std::function<Value(Value)>& op, const std::vector<std::string>& parts) {
    expect_error(
        [&] {
          infer_case({{DType::f32, {3, 4}}}, [&](const Inputs& in) { return Outputs{op(in[0])}; });
        },
        parts);
  };
  fails([](Value x) { return topk(x, 5).values; }, {"topk wants 5 elements of axis 1 of f32[3,4]"});
  fails([](Value x) { return topk(x, -1).values; }, {"topk wants -1"});
  fails([](Value x) { return topk(sum(x), 0).values; }, {"topk wants 0 elements", "f32[]"});
  fails([](Value x) { return sort(x, 2).values; }, {"axis 2 is out of range"});
}

}  // namespace
}  // namespace genesis::testing
