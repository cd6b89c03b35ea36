// Tests reading and writing by index: PyTorch's definitions, gradients with repeated indices, and invalid indices.
#include "schema/ops/tensor/index.h"

#include <limits>
#include <random>

#include "schema/ops/tensor/slice.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using Index = std::vector<int64_t>;

// Calls f(position in x, position in the index) for every element of the index, in order.
template <class F>
void each_index(const Ref& x, const Ref& index, size_t axis, F&& f) {
  for (int64_t i = 0; i < index.numel(); ++i) {
    Index at = unravel(i, index.shape);
    at[axis] = static_cast<int64_t>(index[i]);
    f(ravel(at, x.shape), i);
  }
}

struct Shapes {
  std::string name;
  Index x, index;
  int64_t axis;
};
const Shapes kShapes[] = {{"rows", {4, 5}, {4, 3}, 1},
                          {"columns", {4, 5}, {6, 5}, 0},
                          {"middle", {2, 4, 3}, {2, 5, 3}, 1},
                          {"smaller", {4, 5}, {2, 3}, 1},
                          {"smaller_columns", {4, 5, 2}, {6, 3, 1}, 0},
                          {"vector", {6}, {9}, 0},
                          {"none", {3, 4}, {3, 0}, 1},
                          {"wide", {3, 1500}, {2, 1100}, 0}};

TEST(Index, Gather) {
  for (const Shapes& s : kShapes)
    for (DType dtype : {DType::i64, DType::i32})
      check({.name = "gather_" + s.name + std::string(name_of(dtype)),
             .inputs = {real(s.x), integers(s.index, 0, s.x[static_cast<size_t>(s.axis)], dtype)},
             .build = [=](const Inputs& in) { return Outputs{gather(in[0], s.axis, in[1])}; },
             .reference =
                 [=](const Refs& in) {
                   Ref y = ref_zeros(s.index);
                   each_index(in[0], in[1], static_cast<size_t>(s.axis),
                              [&](int64_t from, int64_t to) { y[to] = in[0][from]; });
                   return Refs{y};
                 },
             .gradient = s.name != "wide"});
}

TEST(Index, ScatterAndScatterAdd) {
  for (const Shapes& s : kShapes)
    for (bool add : {false, true})
      check({.name = (add ? "scatter_add_" : "scatter_") + s.name,
             .inputs = {real(s.x), integers(s.index, 0, s.x[static_cast<size_t>(s.axis)]), real(s.index)},
             .build =
                 [=](const Inputs& in) {
                   return Outputs{add ? scatter_add(in[0], s.axis, in[1], in[2])
                                      : scatter(in[0], s.axis, in[1], in[2])};
                 },
             .reference =
                 [=](const Refs& in) {
                   Ref y = in[0];
                   each_index(y, in[1], static_cast<size_t>(s.axis),
                              [&](int64_t to, int64_t from) { y[to] = in[2][from] + (add ? y[to] : 0); });
                   return Refs{y};
                 },
             .gradient = s.name != "wide"});
  // If the source is larger than the index, the slice that the index covers is used.
  check({.name = "scatter_add_larger_source",
         .inputs = {real({3, 4}), integers({2, 2}, 0, 4), real({3, 3})},
         .build = [](const Inputs& in) { return Outputs{scatter_add(in[0], 1, in[1], in[2])}; },
         .reference =
             [](const Refs& in) {
               Ref y = in[0];
               for (int64_t i = 0; i < 4; ++i)
                 y[i / 2 * 4 + static_cast<int64_t>(in[1][i])] += in[2][i / 2 * 3 + i % 2];
               return Refs{y};
             }});
  check({.name = "scatter_add_integers",
         .inputs = {integers({9}, 0, 9, DType::i32), integers({50}, 0, 9), integers({50}, -5, 5, DType::i32)},
         .build = [](const Inputs& in) { return Outputs{scatter_add(in[0], 0, in[1], in[2])}; },
         .reference =
             [](const Refs& in) {
               Ref y = in[0];
               each_index(y, in[1], 0, [&](int64_t to, int64_t from) { y[to] += in[2][from]; });
               return Refs{y};
             }});
}

TEST(Index, SelectAndAdd) {
  for (int64_t axis : {int64_t{0}, int64_t{1}, int64_t{2}}) {
    Index part = {4, 3, 5};
    const int64_t size = part[static_cast<size_t>(axis)];
    part[static_cast<size_t>(axis)] = 7;
    const auto place = [axis](const Ref& index, const Index& part_shape, int64_t i, const Index& shape) {
      Index at = unravel(i, part_shape);
      at[static_cast<size_t>(axis)] = static_cast<int64_t>(index[at[static_cast<size_t>(axis)]]);
      return ravel(at, shape);
    };
    check({.name = "index_select" + std::to_string(axis),
           .inputs = {real({4, 3, 5}), integers({7}, 0, size)},
           .build = [=](const Inputs& in) { return Outputs{index_select(in[0], axis, in[1])}; },
           .reference =
               [=](const Refs& in) {
                 Ref y = ref_zeros(part);
                 for (int64_t i = 0; i < y.numel(); ++i) y[i] = in[0][place(in[1], part, i, in[0].shape)];
                 return Refs{y};
               }});
    check({.name = "index_add" + std::to_string(axis),
           .inputs = {real({4, 3, 5}), integers({7}, 0, size, DType::i32), real(part)},
           .build = [=](const Inputs& in) { return Outputs{index_add(in[0], axis, in[1], in[2])}; },
           .reference =
               [=](const Refs& in) {
                 Ref y = in[0];
                 for (int64_t i = 0; i < in[2].numel(); ++i) y[place(in[1], part, i, y.shape)] += in[2][i];
                 return Refs{y};
               }});
  }
}

void check_embedding(const std::string& name, const Index& indices, const Index& weight, int64_t padding) {
  OpCase one{.name = "embedding_" + name,
             .inputs = {integers(indices, 0, weight[0]), real(weight)},
             .build = [=](const Inputs& in) { return Outputs{embedding(in[0], in[1], padding)}; },
             .reference =
                 [=](const Refs& in) {
                   Index shape = indices;
                   shape.push_back(weight[1]);
                   Ref y = ref_zeros(shape);
                   for (int64_t i = 0; i < y.numel(); ++i)
                     y[i] = in[1][static_cast<int64_t>(in[0][i / weight[1]]) * weight[1] + i % weight[1]];
                   return Refs{y};
                 }};
  one.gradient = padding < 0 && weight[1] < 100;  // finite differences do not respect padding
  check(one);
}

TEST(Index, Embedding) {
  check_embedding("rows", {2, 5}, {7, 4}, -1);
  check_embedding("one", {}, {3, 2}, -1);
  check_embedding("none", {0}, {3, 2}, -1);
  check_embedding("padding", {9}, {4, 3}, 1);
  check_embedding("wide", {40}, {30, 1200}, -1);
}

TEST(Index, EmbeddingGradientSkipsPadding) {
  const auto result = run_graph(
      {{"indices", Tensor::of<int64_t>({4}, {0, 2, 2, 1})}, {"dy", Tensor::of<float>({4, 1}, {1, 2, 3, 4})}},
      [](const Inputs& in) {
        const auto emit = [&](int64_t padding) {
          return emit_node(*find_op("embedding_grad"), to_attributes(ops::EmbeddingGrad{{3}, padding}),
                           {in[0], in[1]})[0];
        };
        return std::vector<std::pair<std::string, Value>>{{"all", emit(-1)}, {"padded", emit(2)}};
      });
  EXPECT_EQ(result.at("all").to_doubles(), (std::vector<double>{1, 4, 5}));
  EXPECT_EQ(result.at("padded").to_doubles(), (std::vector<double>{1, 4, 0}));
}

// A weight that has only the rows from `first` on of a table of `all` rows. Looking up other rows gives zeros here,
// and additions to them are made on other ranks.
struct TablePart {
  int64_t all, first, count;
  bool has(double row) const {
    return row >= static_cast<double>(first) && row < static_cast<double>(first + count);
  }
};
constexpr int64_t kWidth = 6;
const TablePart kParts[] = {{12, 0, 4}, {12, 4, 4}, {12, 8, 4}, {12, 0, 12}, {12, 11, 1}};

void check_part(const TablePart& part) {
  const ops::IndexRange range{part.first, part.all};
  const CaseInput indices = integers({3, 11}, 0, part.all);
  check({.name = "embedding_of_part",
         .inputs = {indices, real({part.count, kWidth})},
         .build =
             [=](const Inputs& in) {
               return emit_node(*find_op("embedding"), to_attributes(ops::Embedding{-1, range}),
                                {in[0], in[1]});
             },
         .reference =
             [=](const Refs& in) {
               Ref y = ref_zeros({3, 11, kWidth});
               for (int64_t i = 0; i < y.numel(); ++i)
                 if (const double row = in[0][i / kWidth]; part.has(row))
                   y[i] = in[1][(static_cast<int64_t>(row) - part.first) * kWidth + i % kWidth];
               return Refs{y};
             }});
  const auto add = [=](Ref y, const Ref& index, const Ref& rows, int64_t padding) {
    for (int64_t i = 0; i < rows.numel(); ++i)
      if (const double row = index[i / kWidth]; part.has(row) && row != static_cast<double>(padding))
        y[(static_cast<int64_t>(row) - part.first) * kWidth + i % kWidth] += rows[i];
    return Refs{y};
  };
  for (const int64_t padding : {-1, 5})
    check({.name = "embedding_grad_of_part",
           .inputs = {indices, real({3, 11, kWidth})},
           .build =
               [=](const Inputs& in) {
                 const ops::EmbeddingGrad op{{part.count}, padding, range};
                 return emit_node(*find_op("embedding_grad"), to_attributes(op), {in[0], in[1]});
               },
           .reference =
               [=](const Refs& in) {
                 return add(ref_zeros({part.count, kWidth}), in[0], in[1], padding);
               }});
  check({.name = "index_add_to_part",
         .inputs = {real({part.count, kWidth}), integers({20}, 0, part.all), real({20, kWidth})},
         .build =
             [=](const Inputs& in) {
               return emit_node(*find_op("index_add"), to_attributes(ops::IndexAdd{{0}, range}),
                                {in[0], in[1], in[2]});
             },
         .reference = [=](const Refs& in) { return add(in[0], in[1], in[2], -1); },
         .gradient = false});
}

TEST(Index, PartsOfATable) {
  for (const TablePart& part : kParts) check_part(part);
}

// An index beyond the whole table is an error on every rank; an index of another rank's row is not.
TEST(Index, IndicesBeyondAllPartsAreNamed) {
  const auto look_up = [](int64_t index) {
    return run_graph(
               {{"weight", Tensor::of<float>({2, 1}, {1, 2})}, {"index", Tensor::of<int64_t>({1}, {index})}},
               [](const Inputs& in) {
                 const ops::Embedding op{-1, {2, 6}};
                 return std::vector<std::pair<std::string, Value>>{
                     {"y", emit_node(*find_op("embedding"), to_attributes(op), {in[1], in[0]})[0]}};
               })
        .at("y")
        .to_doubles()[0];
  };
  EXPECT_EQ(look_up(0), 0);
  EXPECT_EQ(look_up(3), 2);
  EXPECT_EQ(look_up(5), 0);
  for (const int64_t bad : {-1, 6}) expect_error([&] { look_up(bad); }, {"embedding", std::to_string(bad)});
}

// With many threads and many repeated indices, the bits do not depend on the number of threads (f32 shows any change
// of order).
TEST(Index, SumsInIndexOrder) {
  std::mt19937 random(1);
  std::vector<int64_t> indices(5000);
  std::vector<float> rows(5000 * 70);
  for (int64_t& index : indices) index = random() % 40;
  for (float& value : rows) value = std::uniform_real_distribution<float>(-1, 1)(random);
  std::vector<float> expected(40 * 70, 0.0f);
  for (size_t i = 0; i < indices.size(); ++i)
    for (size_t j = 0; j < 70; ++j) expected[static_cast<size_t>(indices[i]) * 70 + j] += rows[i * 70 + j];
  for (int threads : {1, 2, 4}) {
    SessionOptions options;
    options.threads = threads;
    const auto result = run_graph(
        {{"indices", Tensor::of<int64_t>({5000}, indices)}, {"dy", Tensor::of<float>({5000, 70}, rows)}},
        [](const Inputs& in) {
          return std::vector<std::pair<std::string, Value>>{
              {"y", emit_node(*find_op("embedding_grad"), to_attributes(ops::EmbeddingGrad{{40}, -1}),
                              {in[0], in[1]})[0]}};
        },
        options);
    const auto got = result.at("y").as<float>();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got.begin())) << threads << " threads";
  }
}

TEST(Index, WrongIndicesAreNamed) {
  const Tensor x = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto fails = [&](const std::string& op, int64_t bad, const std::function<Value(const Inputs&)>& build,
                         const Tensor& index) {
    expect_error(
        [&] {
          run_graph({{"x", x}, {"index", index}}, [&](const Inputs& in) {
            return std::vector<std::pair<std::string, Value>>{{"y", build(in)}};
          });
        },
        {op, std::to_string(bad), "3"});
  };
  for (int64_t bad : {int64_t{3}, int64_t{-1}}) {
    const Tensor vector = Tensor::of<int64_t>({2}, {0, bad}), matrix = Tensor::of<int64_t>({1, 2}, {bad, 0});
    fails(
        "embedding", bad, [](const Inputs& in) { return embedding(in[1], in[0]); }, vector);
    fails(
        "index_select", bad, [](const Inputs& in) { return index_select(in[0], 0, in[1]); }, vector);
    fails(
        "index_add", bad, [](const Inputs& in) { return index_add(in[0], 0, in[1], narrow(in[0], 0, 0, 2)); },
        vector);
    fails(
        "gather", bad, [](const Inputs& in) { return gather(in[0], 0, in[1]); }, matrix);
    fails(
        "scatter", bad, [](const Inputs& in) { return scatter(in[0], 0, in[1], in[0]); }, matrix);
    fails(
        "scatter_add", bad, [](const Inputs& in) { return scatter_add(in[0], 0, in[1], in[0]); }, matrix);
  }
}

TEST(Index, Errors) {
  const TensorType x{DType::f32, {3, 4}}, i{DType::i64, {3, 4}}, v{DType::i64, {3}}, big{DType::i64, {4, 2}},
      half{DType::bf16, {3, 4}};
  const auto fails = [](const std::vector<TensorType>& types, const std::function<Value(const Inputs&)>& op,
                        const std::vector<std::string>& parts) {
    expect_error([&] { infer_case(types, [&](const Inputs& in) { return Outputs{op(in)}; }); }, parts);
  };
  fails({x, x}, [](const Inputs& in) { return gather(in[0], 0, in[1]); },
        {"gather takes i32 or i64 indices"});
  fails({x, v}, [](const Inputs& in) { return gather(in[0], 0, in[1]); }, {"index of the rank of x"});
  fails({x, big}, [](const Inputs& in) { return gather(in[0], 1, in[1]); },
        {"larger than f32[3,4] along axis 0"});
  fails({x, i, half}, [](const Inputs& in) { return scatter(in[0], 1, in[1], in[2]); }, {"scatter", "cast"});
  fails({x, i}, [](const Inputs& in) { return index_select(in[0], 1, in[1]); }, {"takes a 1-d index"});
  fails({x, v}, [](const Inputs& in) { return index_add(in[0], 1, in[1], in[0]); }, {"[3,3]", "[3,4]"});
  fails({x, v}, [](const Inputs& in) { return embedding(in[1], in[1]); }, {"embedding takes a weight"});
  fails({x, v}, [](const Inputs& in) { return embedding(in[1], in[0], 3); }, {"padding_idx 3 is not a row"});
  const auto of_part = [](const ops::IndexRange& range) {
    return [=](const Inputs& in) {
      return emit_node(*find_op("embedding"), to_attributes(ops::Embedding{-1, range}), {in[1], in[0]})[0];
    };
  };
  fails({x, v}, of_part({4, 6}), {"indices [4, 7) are not among the 6"});
  fails({x, v}, of_part({-1, 6}), {"indices [-1, 2) are not among the 6"});
  fails({x, v}, of_part({std::numeric_limits<int64_t>::max(), 6}), {"are not among the 6"});
  fails({x, v}, of_part({1, 0}), {"first_index is 1"});
}

// The sum of three trues is a true, and no other byte.
TEST(Index, SumsOfBoolsAreWhetherAnyIsTrue) {
  bool x[2] = {false, true}, s[3] = {true, true, true};
  const auto results = run_graph({{"x", Tensor::copy_of({DType::boolean, {2}}, x)},
                                  {"i", Tensor::of<int64_t>({3}, {0, 0, 1})},
                                  {"s", Tensor::copy_of({DType::boolean, {3}}, s)}},
                                 [](const Inputs& in) {
                                   return std::vector<std::pair<std::string, Value>>{
                                       {"scattered", scatter_add(in[0], 0, in[1], in[2])},
                                       {"added", index_add(in[0], 0, in[1], in[2])}};
                                 });
  for (const char* name : {"scattered", "added"}) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(results.at(name).data());
    EXPECT_EQ(bytes[0], 1) << name;
    EXPECT_EQ(bytes[1], 1) << name;
  }
}

// Sums that overflow an integer dtype wrap around, as additions do.
TEST(Index, SumsOfIntegersWrap) {
  const int64_t greatest = std::numeric_limits<int64_t>::max();
  const auto results = run_graph({{"x", Tensor::of<int64_t>({2}, {greatest, 1})},
                                  {"i", Tensor::of<int64_t>({2}, {0, 1})},
                                  {"s", Tensor::of<int64_t>({2}, {2, greatest})}},
                                 [](const Inputs& in) {
                                   return std::vector<std::pair<std::string, Value>>{
                                       {"scattered", scatter_add(in[0], 0, in[1], in[2])},
                                       {"added", index_add(in[0], 0, in[1], in[2])}};
                                 });
  for (const char* name : {"scattered", "added"}) {
    const auto sums = results.at(name).as<int64_t>();
    EXPECT_EQ(sums[0], std::numeric_limits<int64_t>::min() + 1) << name;
    EXPECT_EQ(sums[1], std::numeric_limits<int64_t>::min()) << name;
  }
}

}  // namespace
}  // namespace genesis::testing
