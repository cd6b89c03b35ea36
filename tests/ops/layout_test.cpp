// Tests ops that move elements: every element comes from where the definition says, and its gradient goes back there.
#include "schema/ops/tensor/layout.h"

#include <algorithm>
#include <numeric>

#include "schema/ops/tensor/reshape.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using Index = std::vector<int64_t>;

// Returns y[i] = x[source(i)].
template <class F>
Ref moved(const Ref& x, Index shape, F&& source) {
  Ref y = ref_zeros(std::move(shape));
  for (int64_t i = 0; i < y.numel(); ++i) y[i] = x[ravel(source(unravel(i, y.shape)), x.shape)];
  return y;
}

void check_unary(const std::string& name, CaseInput x, const std::function<Value(Value)>& op,
                 const std::function<Ref(const Ref&)>& reference) {
  check({.name = name,
         .inputs = {std::move(x)},
         .build = [=](const Inputs& in) { return Outputs{op(in[0])}; },
         .reference = [=](const Refs& in) { return Refs{reference(in[0])}; }});
}

Ref permuted(const Ref& x, const Index& axes) {
  Index shape;
  for (int64_t axis : axes) shape.push_back(x.dim(axis));
  return moved(x, shape, [&](const Index& at) {
    Index from(at.size());
    for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(axes[i])] = at[i];
    return from;
  });
}

TEST(Layout, EveryPermutationOfFourAxes) {
  Index axes = {0, 1, 2, 3};
  do {
    std::string name = "permute_";
    for (int64_t axis : axes) name += std::to_string(axis);
    check_unary(
        name, real({2, 3, 5, 4}), [=](Value x) { return permute(x, axes); },
        [=](const Ref& x) { return permuted(x, axes); });
  } while (std::next_permutation(axes.begin(), axes.end()));
}

// Short runs that are taken apart: more than a task moves, of few rows and of many.
TEST(Layout, TakesManyShortRunsApart) {
  for (const auto& [rows, runs] :
       std::vector<std::pair<int64_t, int64_t>>{{2, 40003}, {70, 2111}, {9001, 3}}) {
    std::vector<float> values(static_cast<size_t>(rows * runs * 4));
    std::iota(values.begin(), values.end(), 0.0f);
    const auto result = run_graph({{"x", Tensor::of({rows, runs, 4}, values)}},
                                  [](const Inputs& in) -> std::vector<std::pair<std::string, Value>> {
                                    return {{"y", permute(in[0], {1, 0, 2})}};
                                  });
    const auto y = result.at("y").as<float>();
    for (int64_t i = 0; i < rows * runs * 4; ++i) {
      const int64_t run = i / 4 / rows, row = i / 4 % rows;
      ASSERT_EQ(y[static_cast<size_t>(i)], values[static_cast<size_t>((row * runs + run) * 4 + i % 4)]) << i;
    }
  }
}

TEST(Layout, TransposesOfEverySizeOfElement) {
  const auto transposed = [](const Ref& x) { return permuted(x, {1, 0}); };
  const auto op = [](Value x) { return transpose(x); };
  for (DType dtype : {DType::u8, DType::i16, DType::i32, DType::i64})
    check_unary("transpose_" + std::string(name_of(dtype)), integers({131, 70}, 0, 100, dtype), op,
                transposed);
  check_unary("transpose_bool", booleans({40, 33}), op, transposed);
  check({.name = "transpose_large",
         .inputs = {real({300, 257})},
         .build = [=](const Inputs& in) { return Outputs{op(in[0])}; },
         .reference = [=](const Refs& in) { return Refs{transposed(in[0])}; },
         .gradient = false});
  check_unary("transpose_none", real({0, 3}), op, transposed);
  // Heads of two channels move as one element of 8 bytes.
  check_unary(
      "permute_pairs", real({2, 7, 9, 2}),
      [](Value x) {
        return permute(x, {0, 2, 1, 3});
      },
      [](const Ref& x) {
        return permuted(x, {0, 2, 1, 3});
      });
  // Colors come last, by pixels and by blocks of two rows of two pixels.
  check_unary(
      "permute_colors", real({2, 4, 3, 8}),
      [](Value x) {
        return permute(x, {0, 2, 3, 1});
      },
      [](const Ref& x) {
        return permuted(x, {0, 2, 3, 1});
      });
  check_unary(
      "permute_blocks", real({1, 4, 3, 2, 3, 2}),
      [](Value x) {
        return permute(x, {0, 2, 4, 3, 5, 1});
      },
      [](const Ref& x) {
        return permuted(x, {0, 2, 4, 3, 5, 1});
      });
  check_unary(
      "permute_unit_axes", real({1, 5, 1, 3}),
      [](Value x) {
        return permute(x, {2, 1, 0, 3});
      },
      [](const Ref& x) {
        return permuted(x, {2, 1, 0, 3});
      });
}

TEST(Layout, Expand) {
  const auto expand_case = [](const std::string& name, const Index& from, const Index& to) {
    check_unary(
        name, real(from), [=](Value x) { return expand(x, Shape::of(to)); },
        [=](const Ref& x) {
          return moved(x, to, [&](const Index& at) {
            Index source(at.end() - static_cast<int64_t>(from.size()), at.end());
            for (size_t i = 0; i < from.size(); ++i) source[i] = from[i] == 1 ? 0 : source[i];
            return source;
          });
        });
  };
  expand_case("expand_scalar", {}, {3, 4});
  expand_case("expand_rows", {4}, {3, 4});
  expand_case("expand_columns", {3, 1}, {3, 5});
  expand_case("expand_both", {2, 1, 3, 1}, {5, 2, 4, 3, 2});
  expand_case("expand_front", {2, 3}, {1, 2, 3});
  expand_case("expand_to_none", {1, 3}, {0, 3});
}

TEST(Layout, Flip) {
  const auto flip_case = [](const std::string& name, const Index& shape, const Index& axes) {
    check_unary(
        name, real(shape), [=](Value x) { return flip(x, axes); },
        [=](const Ref& x) {
          return moved(x, shape, [&](Index at) {
            for (int64_t axis : axes) {
              const auto i = static_cast<size_t>(axis < 0 ? axis + x.rank() : axis);
              at[i] = shape[i] - 1 - at[i];
            }
            return at;
          });
        });
  };
  flip_case("flip_last", {3, 40}, {-1});
  flip_case("flip_first", {3, 4}, {0});
  flip_case("flip_all", {2, 3, 4}, {0, 1, 2});
  flip_case("flip_none", {2, 0}, {0, 1});
}

TEST(Layout, Roll) {
  const auto roll_case = [](const std::string& name, const Index& shape, const Index& shifts,
                            const Index& axes) {
    check_unary(
        name, real(shape), [=](Value x) { return roll(x, shifts, axes); },
        [=](const Ref& x) {
          return moved(x, shape, [&](Index at) {
            for (size_t k = 0; k < axes.size(); ++k) {
              const auto i = static_cast<size_t>(axes[k] < 0 ? axes[k] + x.rank() : axes[k]);
              at[i] = ((at[i] - shifts[k]) % shape[i] + shape[i]) % shape[i];
            }
            return at;
          });
        });
  };
  roll_case("roll_last", {3, 7}, {2}, {1});
  roll_case("roll_back", {3, 7}, {-9}, {-1});
  roll_case("roll_two", {4, 5, 2}, {3, -1}, {0, 1});
  roll_case("roll_whole", {4}, {8}, {0});
  roll_case("roll_none", {0, 2}, {1}, {0});
  check_unary(
      "roll_flat", real({3, 4}), [](Value x) { return roll(x, {5}, {}); },
      [](const Ref& x) {
        Ref y = x;
        std::rotate(y.data.begin(), y.data.end() - 5, y.data.end());
        return y;
      });
}

TEST(Layout, TileAndRepeat) {
  check_unary(
      "tile", real({2, 3}),
      [](Value x) {
        return tile(x, {2, 3});
      },
      [](const Ref& x) {
        return moved(x, {4, 9}, [](const Index& at) { return Index{at[0] % 2, at[1] % 3}; });
      });
  check_unary(
      "tile_more_axes", real({3}),
      [](Value x) {
        return tile(x, {2, 2});
      },
      [](const Ref& x) {
        return moved(x, {2, 6}, [](const Index& at) { return Index{at[1] % 3}; });
      });
  check_unary(
      "tile_fewer_repeats", real({2, 3}), [](Value x) { return tile(x, {2}); },
      [](const Ref& x) {
        return moved(x, {2, 6}, [](const Index& at) { return Index{at[0], at[1] % 3}; });
      });
  for (int64_t axis : {int64_t{0}, int64_t{1}})
    check_unary(
        "repeat_interleave" + std::to_string(axis), real({2, 3}),
        [=](Value x) { return repeat_interleave(x, 3, axis); },
        [=](const Ref& x) {
          return moved(x, axis == 0 ? Index{6, 3} : Index{2, 9}, [&](Index at) {
            at[static_cast<size_t>(axis)] /= 3;
            return at;
          });
        });
}

TEST(Layout, Triangles) {
  const auto triangle_case = [](const std::string& name, const Index& shape, int64_t diagonal, bool lower) {
    check_unary(
        name + (lower ? "_l" : "_u") + std::to_string(diagonal), real(shape),
        [=](Value x) { return lower ? tril(x, diagonal) : triu(x, diagonal); },
        [=](const Ref& x) {
          Ref y = x;
          for (int64_t i = 0; i < y.numel(); ++i) {
            const Index at = unravel(i, y.shape);
            const int64_t offset = at[at.size() - 1] - at[at.size() - 2];
            if (lower ? offset > diagonal : offset < diagonal) y[i] = 0;
          }
          return y;
        });
  };
  for (bool lower : {true, false})
    for (int64_t diagonal : {0, 1, -2, 9, -9}) {
      triangle_case("triangle_square", {2, 4, 4}, diagonal, lower);
      triangle_case("triangle_wide", {3, 5}, diagonal, lower);
      triangle_case("triangle_tall", {5, 3}, diagonal, lower);
    }
  triangle_case("triangle_none", {0, 3}, 0, true);
}

TEST(Layout, Symbols) {
  const TensorType x{DType::f32, Shape::parse("[batch,seq,4]")};
  const auto types = infer_case({x}, [](const Inputs& in) {
    return Outputs{permute(in[0], {2, 0, 1}), tile(in[0], {1, 2, 3}), repeat_interleave(in[0], 2, 0),
                   flip(in[0], {1}), roll(in[0], {1}, {0})};
  });
  const char* expected[] = {"f32[4,batch,seq]", "f32[batch,2*seq,12]", "f32[2*batch,seq,4]",
                            "f32[batch,seq,4]", "f32[batch,seq,4]"};
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(types[i].to_string(), expected[i]);
}

TEST(Layout, Errors) {
  const auto fails = [](Value (*op)(Value), const std::vector<std::string>& parts) {
    expect_error(
        [&] {
          infer_case({{DType::f32, {3, 4}}}, [&](const Inputs& in) { return Outputs{op(in[0])}; });
        },
        parts);
  };
  fails([](Value x) { return permute(x, {0}); }, {"permute names 1 axes of [3,4]"});
  fails([](Value x) { return permute(x, {0, 0}); }, {"axis 0 is named twice"});
  fails([](Value x) { return permute(x, {0, 2}); }, {"axis 2 is out of range for rank 2"});
  fails([](Value x) { return expand(x, {3, 5}); }, {"[3,4]", "[3,5]"});
  fails([](Value x) { return expand(x, {4}); }, {"[3,4] does not expand to [4]"});
  fails([](Value x) { return roll(x, {1, 2}, {0}); }, {"2 shifts for 1 axes"});
  fails([](Value x) { return tile(x, {-1, 1}); }, {"cannot repeat -1 times"});
  fails([](Value x) { return tril(reshape(x, {12})); }, {"two axes", "f32[12]"});
}

}  // namespace
}  // namespace genesis::testing
