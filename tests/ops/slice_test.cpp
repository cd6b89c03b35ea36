// Tests slices, joins, splits, padding, and slices whose start is data.
#include "schema/ops/tensor/slice.h"
#include "schema/ops/tensor/dynamic_slice.h"

#include <algorithm>

#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using Index = std::vector<int64_t>;

// Returns Python's slice of a range, by its definition.
Index python_range(int64_t size, int64_t start, int64_t end, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](int64_t at) { return std::max(low, std::min(high, at < 0 ? at + size : at)); };
  const int64_t stop = end == kToEnd ? (step > 0 ? size : -1) : place(end);
  Index result;
  for (int64_t i = place(start); step > 0 ? i < stop : i > stop; i += step) result.push_back(i);
  return result;
}

Ref taken(const Ref& x, int64_t axis, const Index& places) {
  Ref y = ref_zeros(x.shape);
  const auto at = static_cast<size_t>(axis);
  y.shape[at] = static_cast<int64_t>(places.size());
  y = ref_zeros(y.shape);
  for (int64_t i = 0; i < y.numel(); ++i) {
    Index from = unravel(i, y.shape);
    from[at] = places[static_cast<size_t>(from[at])];
    y[i] = x[ravel(from, x.shape)];
  }
  return y;
}

TEST(Slice, PythonRules) {
  struct Bounds {
    int64_t start, end, step;
  };
  const Bounds all[] = {{0, kToEnd, 1},       {1, 4, 1},  {-3, -1, 1},    {2, 100, 1},
                        {-100, 3, 1},         {5, 2, 1},  {0, kToEnd, 2}, {1, 6, 3},
                        {kToEnd, kToEnd, -1}, {5, 1, -2}, {-1, -7, -3},   {0, kToEnd, -1},
                        {9, kToEnd, 1},       {2, 3, -1}, {6, 0, -1},     {-2, kToEnd, 1}};
  int number = 0;
  for (const Bounds b : all)  // clang 14 cannot capture a structured binding
    for (int64_t axis : {int64_t{0}, int64_t{1}})
      check({.name = "slice" + std::to_string(number++),
             .inputs = {real(axis == 0 ? Index{7, 3} : Index{2, 7, 2})},
             .build = [=](const Inputs& in) { return Outputs{slice(in[0], axis, b.start, b.end, b.step)}; },
             .reference =
                 [=](const Refs& in) {
                   return Refs{taken(in[0], axis, python_range(7, b.start, b.end, b.step))};
                 }});
}

TEST(Slice, NarrowAndSelect) {
  check({.name = "narrow",
         .inputs = {real({3, 5})},
         .build = [](const Inputs& in) { return Outputs{narrow(in[0], -1, 1, 3)}; },
         .reference =
             [](const Refs& in) {
               return Refs{taken(in[0], 1, {1, 2, 3})};
             }});
  check({.name = "select",
         .inputs = {real({3, 5})},
         .build =
             [](const Inputs& in) {
               return Outputs{select(in[0], 1, -2), select(in[0], 0, 1)};
             },
         .reference =
             [](const Refs& in) {
               Ref column = taken(in[0], 1, {3}), row = taken(in[0], 0, {1});
               column.shape = {3}, row.shape = {5};
               return Refs{column, row};
             }});
}

Ref joined(const Refs& parts, int64_t axis) {
  Ref y = parts[0];
  const auto at = static_cast<size_t>(axis);
  for (size_t i = 1; i < parts.size(); ++i) y.shape[at] += parts[i].shape[at];
  y = ref_zeros(y.shape);
  int64_t start = 0;
  for (const Ref& part : parts) {
    for (int64_t i = 0; i < part.numel(); ++i) {
      Index to = unravel(i, part.shape);
      to[at] += start;
      y[ravel(to, y.shape)] = part[i];
    }
    start += part.shape[at];
  }
  return y;
}

TEST(Slice, ConcatAndStack) {
  for (int64_t axis : {int64_t{0}, int64_t{1}, int64_t{2}}) {
    std::vector<CaseInput> inputs;
    for (int64_t size : {2, 1, 0, 3}) {
      Index shape = {2, 3, 4};
      shape[static_cast<size_t>(axis)] = size;
      inputs.push_back(real(shape));
    }
    check({.name = "concat" + std::to_string(axis),
           .inputs = inputs,
           .build = [=](const Inputs& in) { return Outputs{concat(in.values, axis - 3)}; },
           .reference = [=](const Refs& in) { return Refs{joined(in, axis)}; }});
    check({.name = "stack" + std::to_string(axis),
           .inputs = {real({2, 3}), real({2, 3})},
           .build = [=](const Inputs& in) { return Outputs{stack(in.values, axis)}; },
           .reference =
               [=](Refs in) {
                 for (Ref& x : in) x.shape.insert(x.shape.begin() + axis, 1);
                 return Refs{joined(in, axis)};
               }});
  }
  check({.name = "concat_bytes",
         .inputs = {integers({3, 1}, 0, 9, DType::u8), integers({3, 2}, 0, 9, DType::u8)},
         .build = [](const Inputs& in) { return Outputs{concat(in.values, 1)}; },
         .reference = [](const Refs& in) { return Refs{joined(in, 1)}; }});
}

TEST(Slice, Split) {
  for (int64_t axis : {int64_t{0}, int64_t{1}})
    check({.name = "split" + std::to_string(axis),
           .inputs = {real({6, 6})},
           .build =
               [=](const Inputs& in) {
                 return split(in[0], {1, 3, 0, 2}, axis);
               },
           .reference =
               [=](const Refs& in) {
                 return Refs{taken(in[0], axis, {0}), taken(in[0], axis, {1, 2, 3}), taken(in[0], axis, {}),
                             taken(in[0], axis, {4, 5})};
               }});
  check({.name = "split_part_used",  // unread outputs have no gradient
         .inputs = {real({2, 6})},
         .build =
             [](const Inputs& in) {
               return Outputs{split(in[0], {1, 3, 2}, 1)[1]};
             },
         .reference =
             [](const Refs& in) {
               return Refs{taken(in[0], 1, {1, 2, 3})};
             }});
  check({.name = "chunk",
         .inputs = {real({2, 6})},
         .build = [](const Inputs& in) { return chunk(in[0], 3, -1); },
         .reference =
             [](const Refs& in) {
               return Refs{taken(in[0], 1, {0, 1}), taken(in[0], 1, {2, 3}), taken(in[0], 1, {4, 5})};
             }});
}

TEST(Slice, Pad) {
  const auto pad_case = [](const std::string& name, const Index& shape, const Index& before,
                           const Index& after, double value) {
    check({.name = name,
           .inputs = {real(shape)},
           .build = [=](const Inputs& in) { return Outputs{pad(in[0], before, after, value)}; },
           .reference =
               [=](const Refs& in) {
                 Index to = shape;
                 for (size_t i = 0; i < to.size(); ++i) to[i] += before[i] + after[i];
                 Ref y = ref_zeros(to);
                 for (int64_t i = 0; i < y.numel(); ++i) {
                   Index at = unravel(i, to);
                   bool inside = true;
                   for (size_t k = 0; k < at.size(); ++k) {
                     at[k] -= before[k];
                     inside = inside && at[k] >= 0 && at[k] < shape[k];
                   }
                   y[i] = inside ? in[0][ravel(at, shape)] : value;
                 }
                 return Refs{y};
               }});
  };
  pad_case("pad", {2, 3}, {1, 2}, {0, 1}, 0.5);
  pad_case("pad_cut", {4, 5}, {-1, 2}, {1, -3}, -2);
  pad_case("pad_cut_all", {4}, {-3}, {-1}, 1);
  pad_case("pad_beyond", {3}, {-5}, {4}, 1);
  pad_case("pad_none", {0, 2}, {1, 0}, {1, 0}, 3);
}

TEST(Slice, PadFromItself) {
  const auto mode_case = [](const std::string& name, PadMode mode, int64_t before, int64_t after,
                            const Index& places) {
    for (int64_t axis : {int64_t{0}, int64_t{1}})
      check({.name = name + std::to_string(axis),
             .inputs = {real(axis == 0 ? Index{4, 2} : Index{2, 4})},
             .build =
                 [=](const Inputs& in) {
                   Index front = {0, 0}, back = {0, 0};
                   front[static_cast<size_t>(axis)] = before, back[static_cast<size_t>(axis)] = after;
                   return Outputs{pad(in[0], front, back, 0, mode)};
                 },
             .reference = [=](const Refs& in) { return Refs{taken(in[0], axis, places)}; }});
  };
  mode_case("pad_reflect", PadMode::kReflect, 3, 2, {3, 2, 1, 0, 1, 2, 3, 2, 1});
  mode_case("pad_replicate", PadMode::kReplicate, 2, 1, {0, 0, 0, 1, 2, 3, 3});
  mode_case("pad_circular", PadMode::kCircular, 4, 3, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2});
}

TEST(Slice, Dynamic) {
  for (int64_t start : {int64_t{-4}, int64_t{0}, int64_t{2}, int64_t{4}, int64_t{99}})
    for (int64_t axis : {int64_t{0}, int64_t{1}}) {
      const std::string name = std::to_string(axis) + "_" + std::to_string(start + 10);
      const int64_t first = std::clamp<int64_t>(start, 0, 3);
      const Index shape = axis == 0 ? Index{5, 3} : Index{3, 5}, part = axis == 0 ? Index{2, 3} : Index{3, 2};
      check({.name = "dynamic_slice" + name,
             .inputs = {real(shape), integer_data({}, {static_cast<double>(start)})},
             .build = [=](const Inputs& in) { return Outputs{dynamic_slice(in[0], in[1], axis, 2)}; },
             .reference =
                 [=](const Refs& in) {
                   return Refs{taken(in[0], axis, {first, first + 1})};
                 }});
      check({.name = "dynamic_update" + name,
             .inputs = {real(shape), real(part), integer_data({1}, {static_cast<double>(start)}, DType::i32)},
             .build =
                 [=](const Inputs& in) { return Outputs{dynamic_update_slice(in[0], in[1], in[2], axis)}; },
             .reference =
                 [=](const Refs& in) {
                   Ref y = in[0];
                   for (int64_t i = 0; i < in[1].numel(); ++i) {
                     Index to = unravel(i, part);
                     to[static_cast<size_t>(axis)] += first;
                     y[ravel(to, shape)] = in[1][i];
                   }
                   return Refs{y};
                 }});
    }
}

// Returns x with an update per row. Each row has its own start, and `with_length` its own number of written steps.
Ref rows_updated(const Refs& in, int64_t axis, bool with_length) {
  Ref y = in[0];
  const int64_t size = y.dim(axis), steps = in[1].dim(axis);
  for (int64_t i = 0; i < in[1].numel(); ++i) {
    Index to = unravel(i, in[1].shape);
    const int64_t row = in[2].rank() == 0 ? 0 : to[0], step = to[static_cast<size_t>(axis)];
    const auto start = static_cast<int64_t>(in[2][row]);
    if (with_length && step >= static_cast<int64_t>(in[3][row])) continue;
    to[static_cast<size_t>(axis)] =
        step + (with_length ? start : std::clamp<int64_t>(start, 0, size - steps));
    y[ravel(to, y.shape)] = in[1][i];
  }
  return y;
}

TEST(Slice, UpdatesOfRows) {
  const auto rows = [](const std::string& name, Index x, Index update, int64_t axis, CaseInput starts,
                       std::optional<CaseInput> lengths = {}) {
    OpCase one{
        .name = "update_rows_" + name,
        .inputs = {real(x), real(update), starts},
        .build =
            [=](const Inputs& in) {
              return Outputs{dynamic_update_slice(in[0], in[1], in[2], axis, lengths ? in[3] : Value{})};
            },
        .reference = [=](const Refs& in) { return Refs{rows_updated(in, axis, lengths.has_value())}; }};
    if (lengths) one.inputs.push_back(*lengths);
    check(one);
  };
  rows("cache", {3, 7, 2, 4}, {3, 2, 2, 4}, 1, integer_data({3}, {5, 0, 3}));
  rows("clamped", {3, 7, 2}, {3, 2, 2}, 1, integer_data({3}, {6, -2, 100}));
  rows("i32", {2, 5}, {2, 3}, 1, integer_data({2}, {2, 0}, DType::i32));
  rows("inner_axis", {2, 3, 6, 2}, {2, 3, 2, 2}, 2, integer_data({2}, {4, 1}));
  rows("last_axis", {2, 3, 6}, {2, 3, 2}, 2, integer_data({2}, {4, 1}));
  rows("lengths", {4, 7, 2, 4}, {4, 3, 2, 4}, 1, integer_data({4}, {4, 6, 7, 0}),
       integer_data({4}, {3, 1, 0, 2}));
  rows("one_length", {7, 2}, {3, 2}, 0, integer_data({}, {5}), integer_data({}, {2}));
  rows("larger", {2, 12, 3, 5}, {2, 9, 3, 5}, 1, integer_data({2}, {3, 7}), integer_data({2}, {9, 4}));
}

// The size is large enough for several threads to copy.
TEST(Slice, LargeUpdatesOfRows) {
  const int64_t rows = 4, size = 40, steps = 30, features = 512;
  std::vector<float> x(static_cast<size_t>(rows * size * features), 1.0f),
      update(static_cast<size_t>(rows * steps * features));
  for (size_t i = 0; i < update.size(); ++i) update[i] = static_cast<float>(i);
  const std::vector<int64_t> starts = {10, 0, 3, 7}, lengths = {30, 30, 0, 11};
  const auto y = run_graph({{"x", Tensor::of<float>({rows, size, features}, x)},
                            {"update", Tensor::of<float>({rows, steps, features}, update)},
                            {"start", Tensor::of<int64_t>({rows}, starts)},
                            {"length", Tensor::of<int64_t>({rows}, lengths)}},
                           [](const Inputs& in) {
                             return std::vector<std::pair<std::string, Value>>{
                                 {"y", dynamic_update_slice(in[0], in[1], in[2], 1, in[3])}};
                           })
                     .at("y");
  for (size_t row = 0; row < 4; ++row)
    for (int64_t i = 0; i < lengths[row] * features; ++i)
      x[static_cast<size_t>((static_cast<int64_t>(row) * size + starts[row]) * features + i)] =
          update[row * static_cast<size_t>(steps * features) + static_cast<size_t>(i)];
  EXPECT_TRUE(std::equal(x.begin(), x.end(), y.as<float>().begin()));
}

TEST(Slice, AnUpdateThatDoesNotFitIsAnError) {
  const auto fails = [](int64_t start, int64_t length, int64_t value) {
    expect_error(
        [&] {
          run_graph({{"x", Tensor::zeros({DType::f32, {2, 7, 2}})},
                     {"update", Tensor::zeros({DType::f32, {2, 3, 2}})},
                     {"start", Tensor::of<int64_t>({2}, {0, start})},
                     {"length", Tensor::of<int64_t>({2}, {3, length})}},
                    [](const Inputs& x) {
                      return std::vector<std::pair<std::string, Value>>{
                          {"y", dynamic_update_slice(x[0], x[1], x[2], 1, x[3])}};
                    });
        },
        {"dynamic_update_slice", std::to_string(value)});
  };
  fails(5, 3, 5);
  fails(-1, 1, -1);
  fails(8, 0, 8);
  fails(0, 4, 4);
  fails(0, -1, -1);
  const auto refused = [](TensorType start, TensorType length, const std::vector<std::string>& parts) {
    expect_error(
        [&] {
          infer_case({{DType::f32, {2, 7, 2}}, {DType::f32, {2, 3, 2}}, start, length}, [](const Inputs& x) {
            return Outputs{dynamic_update_slice(x[0], x[1], x[2], 1, x[3])};
          });
        },
        parts);
  };
  refused({DType::i64, {3}}, {DType::i64, {3}}, {"one i32 or i64", "2 of them", "i64[3]"});
  refused({DType::i64, {2}}, {DType::i64, {}}, {"length must be like start i64[2]", "i64[]"});
}

TEST(Slice, Symbols) {
  const TensorType x{DType::f32, Shape::parse("[batch,seq,4]")};
  const auto types = infer_case({x}, [](const Inputs& in) {
    const Dim seq = Dim::symbol("seq");
    return Outputs{slice(in[0], 1, 1),
                   slice(in[0], 1, -2),
                   slice(in[0], 1, 0, -1),
                   narrow(in[0], 1, 0, seq),
                   concat({in[0], in[0]}, 1),
                   pad(in[0], {0, 1, 0}, {0, 2, 0}),
                   slice(in[0], 0, kToEnd, kToEnd, -1),
                   select(in[0], 0, -1),
                   slice(in[0], 1, 0, kToEnd, 3)};
  });
  const char* expected[] = {"f32[batch,seq+-1,4]", "f32[batch,2,4]",     "f32[batch,seq+-1,4]",
                            "f32[batch,seq,4]",    "f32[batch,2*seq,4]", "f32[batch,seq+3,4]",
                            "f32[batch,seq,4]",    "f32[seq,4]",         "f32[batch,floor_div(seq+2,3),4]"};
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(types[i].to_string(), expected[i]) << i;
}

TEST(Slice, Errors) {
  const TensorType x{DType::f32, {3, 4}};
  const auto fails = [&](const std::function<Value(Value)>& op, const std::vector<std::string>& parts) {
    expect_error([&] { infer_case({x}, [&](const Inputs& in) { return Outputs{op(in[0])}; }); }, parts);
  };
  fails([](Value v) { return slice(v, 0, 0, 2, 0); }, {"step 0"});
  fails([](Value v) { return slice(v, 2, 0); }, {"axis 2 is out of range"});
  fails([](Value v) { return narrow(v, 1, 2, 3); }, {"a slice of 3 elements from 2", "size 4"});
  fails([](Value v) { return select(v, 0, 3); }, {"size 3"});
  fails([](Value v) { return concat({v, narrow(v, 1, 0, 2)}, 0); }, {"differ there only", "[3,4]", "[3,2]"});
  fails([](Value) { return concat({}, 0); }, {"concat of no tensors"});
  fails([](Value v) { return split(v, {1, 1}, 0)[0]; }, {"parts of 2 in all", "size 3"});
  fails([](Value v) { return chunk(v, 2, 0)[0]; }, {"does not cut into 2 equal parts"});
  fails([](Value v) { return pad(v, {1}, {1}); }, {"one per axis"});
  fails([](Value v) { return pad(v, {-2, 0}, {-2, 0}); }, {"negative size"});
  fails([](Value v) { return pad(v, {3, 0}, {0, 0}, 0, PadMode::kReflect); }, {"size 3"});
  fails([](Value v) { return dynamic_slice(v, v, 0, 1); },
        {"dynamic_slice takes its start as one i32 or i64"});
}

}  // namespace
}  // namespace genesis::testing
