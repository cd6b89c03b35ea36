// Tests ops that find as many things as the data has: places of nonzero elements, and boxes that overlap no better one.
#include "schema/ops/tensor/bounded.h"

#include <algorithm>

#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

Refs places(const Ref& x) {
  Ref rows = ref_zeros({x.numel(), x.rank()}), count = ref_zeros({});
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (x[i] == 0) continue;
    const std::vector<int64_t> place = unravel(i, x.shape);
    for (int64_t axis = 0; axis < x.rank(); ++axis)
      rows[static_cast<int64_t>(count[0]) * x.rank() + axis] =
          static_cast<double>(place[static_cast<size_t>(axis)]);
    count[0] += 1;
  }
  return {rows, count};
}

TEST(Bounded, NonzeroHasThePlacesInOrder) {
  const auto check_of = [](const std::string& name, CaseInput x) {
    check({.name = "nonzero_" + name,
           .inputs = {std::move(x)},
           .build =
               [](const Inputs& in) {
                 const BoundedRows found = nonzero(in[0]);
                 return Outputs{found.rows, found.count};
               },
           .reference = [](const Refs& in) { return places(in[0]); },
           .gradient = false});
  };
  check_of("bools", booleans({3, 5, 4}));
  check_of("integers", integers({2, 7}, 0, 3));
  check_of("reals", real_data({6}, {0, -0.0, 0.5, 1, 0, -2}));
  check_of("long", integers({700}, 0, 2));
}

double overlap(const double* a, const double* b) {
  const double height = std::min(a[2], b[2]) - std::max(a[0], b[0]),
               width = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (height <= 0 || width <= 0) return 0;
  const auto area = [](const double* box) { return (box[2] - box[0]) * (box[3] - box[1]); };
  return height * width / (area(a) + area(b) - height * width);
}

// The boxes of the case have their first corner first.
Refs taken_boxes(const ops::Nms& op, const Refs& in) {
  const Ref &boxes = in[0], &scores = in[1];
  const int64_t count = boxes.dim(1), rows = std::min(op.max_boxes, count);
  Ref result = ref_zeros({scores.dim(0) * scores.dim(1) * op.max_boxes, 3}), found = ref_zeros({});
  for (int64_t entry = 0; entry < scores.dim(0); ++entry)
    for (int64_t of_class = 0; of_class < scores.dim(1); ++of_class) {
      std::vector<int64_t> taken;
      std::vector<bool> left(static_cast<size_t>(count), true);
      while (static_cast<int64_t>(taken.size()) < rows) {
        int64_t best = -1;
        const auto score = [&](int64_t i) { return scores[(entry * scores.dim(1) + of_class) * count + i]; };
        for (int64_t i = 0; i < count; ++i)
          if (left[static_cast<size_t>(i)] && score(i) > op.score_threshold &&
              (best < 0 || score(i) > score(best)))
            best = i;
        if (best < 0) break;
        taken.push_back(best);
        for (int64_t i = 0; i < count; ++i)
          if (i == best ||
              overlap(&boxes.data[static_cast<size_t>((entry * count + best) * 4)],
                      &boxes.data[static_cast<size_t>((entry * count + i) * 4)]) > op.iou_threshold)
            left[static_cast<size_t>(i)] = false;
      }
      for (const int64_t box : taken) {
        const auto row = static_cast<int64_t>(found[0]) * 3;
        result[row] = static_cast<double>(entry), result[row + 1] = static_cast<double>(of_class);
        result[row + 2] = static_cast<double>(box);
        found[0] += 1;
      }
    }
  return {result, found};
}

OpCase nms_case(const std::string& name, const ops::Nms& op, int64_t batch, int64_t classes, int64_t count) {
  std::vector<double> boxes;
  for (int64_t i = 0; i < batch * count; ++i) {
    const double y = static_cast<double>(i * 7 % 13), x = static_cast<double>(i * 5 % 11);
    for (const double corner : {y, x, y + 3 + static_cast<double>(i % 3), x + 4}) boxes.push_back(corner);
  }
  std::vector<double> scores;  // some are equal
  for (int64_t i = 0; i < batch * classes * count; ++i)
    scores.push_back(static_cast<double>(i * 11 % 16) / 16);
  return {.name = "nms_" + name,
          .inputs = {real_data({batch, count, 4}, boxes), real_data({batch, classes, count}, scores)},
          .build =
              [op](const Inputs& in) {
                const BoundedRows found = non_max_suppression(in[0], in[1], op);
                return Outputs{found.rows, found.count};
              },
          .reference = [op](const Refs& in) { return taken_boxes(op, in); },
          .gradient = false};
}

TEST(Bounded, NmsTakesTheBestThatAreApart) {
  check(nms_case("few", {.max_boxes = 3, .iou_threshold = 0.3}, 1, 1, 9));
  check(nms_case("classes", {.max_boxes = 100, .iou_threshold = 0.25, .score_threshold = 0.3}, 2, 3, 20));
  check(nms_case("many", {.max_boxes = 40, .iou_threshold = 0.6}, 1, 2, 300));
  check(nms_case("none", {.max_boxes = 0, .iou_threshold = 0.6}, 1, 2, 4));
}

TEST(Bounded, BoxesHaveAnyTwoCornersOrACenter) {
  const auto taken = [](std::vector<float> boxes, bool center) {
    return run_graph(
        {{"boxes", Tensor::of<float>({1, 3, 4}, boxes)},
         {"scores", Tensor::of<float>({1, 1, 3}, {0.5, 0.9, 0.7})}},
        [&](const Inputs& in) {
          const auto found =
              non_max_suppression(in[0], in[1], {.max_boxes = 3, .iou_threshold = 0.5, .center = center});
          return std::vector<std::pair<std::string, Value>>{{"rows", found.rows}, {"count", found.count}};
        });
  };
  const std::vector<double> expected = {0, 0, 1, 0, 0, 2, 0, 0, 0};
  for (const auto& results : {taken({0, 0, 4, 4, 4, 4.1F, 0.1F, 0, 8, 0, 9, 1}, false),
                              taken({2, 2, 4, 4, 2.1F, 2, 4, 4, 0.5F, 8.5F, 1, 1}, true)}) {
    EXPECT_EQ(results.at("count").to_doubles(), std::vector<double>{2});
    EXPECT_EQ(results.at("rows").to_doubles(), expected);
  }
}

TEST(Bounded, TypesThatDoNotFit) {
  const auto infer = [](const TensorType& boxes, const TensorType& scores) {
    infer_case({boxes, scores},
               [](const Inputs& x) { return Outputs{non_max_suppression(x[0], x[1], {}).rows}; });
  };
  infer({DType::f32, {2, 5, 4}}, {DType::f32, {2, 3, 5}});
  expect_error(
      [&] {
        infer({DType::f32, {2, 5, 4}}, {DType::f32, {2, 5, 3}});
      },
      {"nms: boxes", "do not fit"});
  expect_error([&] { infer({DType::f32, {2, 5}}, {DType::f32, {2, 5, 3}}); }, {"nms takes boxes"});
}

}  // namespace
}  // namespace genesis::testing
