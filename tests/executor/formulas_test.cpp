// Tests that an op with a formula takes part in fusion, autodiff and low precision: with a kernel of its own, which runs where the op
// stands alone, and without any.
#include <algorithm>

#include "backends/plugin_kernels.h"
#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "passes/training/autodiff.h"
#include "schema/graph/plugin_ops.h"
#include "schema/graph/text.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

// Rules of which the ops of this test have the name and the formula.
template <class Op>
struct LikeItsFirstInput {
  static void fields(auto&, auto&&) {}
  std::vector<TensorType> infer(Types in) const { return {in[0]}; }
};
constexpr OpInfo info_of(const char* name, InputCount inputs = {1, 1},
                         Precision precision = Precision::kFollow) {
  return {.name = name, .doc = "an op of a test", .inputs = inputs, .precision = precision};
}

struct Shrink : LikeItsFirstInput<Shrink> {  // has no kernel
  static constexpr OpInfo info = info_of("test_shrink");
  double scale = 1;
  static void fields(auto& self, auto&& visit) { visit("scale", self.scale); }
  Value formula(Operands x) const { return x[0] / (square(x[0]) + 1.0) * scale; }
};

struct Rows : LikeItsFirstInput<Rows> {  // has no kernel; sums rows; computes in f32
  static constexpr OpInfo info = info_of("test_rows", {1, 1}, Precision::kWide);
  Value formula(Operands x) const {
    const Value e = exp(x[0]);
    return e / sum(e, {-1}, true);
  }
};

struct Bump : LikeItsFirstInput<Bump> {  // has a kernel, which marks its results by 100
  static constexpr OpInfo info = info_of("test_bump");
  Value formula(Operands x) const { return exp(-square(x[0])); }
};

struct Whole : LikeItsFirstInput<Whole> {  // is elementwise by its own word, and has a kernel alone
  static constexpr OpInfo info = {
      .name = "test_whole", .doc = "an op of a test", .precision = Precision::kFollow, .elementwise = true};
};

struct Around : LikeItsFirstInput<Around> {  // consists of other ops with formulas
  static constexpr OpInfo info = info_of("test_around");
  Value formula(Operands x) const { return emit(Shrink{{}, 2}, {x[0]}) + x[0]; }
};

struct SumAndProduct {
  static constexpr OpInfo info = info_of("test_sum_and_product", {2, 2});
  static void fields(auto&, auto&&) {}
  std::vector<TensorType> infer(Types in) const { return {in[0], in[0]}; }
  std::vector<Value> formula(Operands x) const { return {x[0] + x[1], x[0] * x[1]}; }
};

struct Endless : LikeItsFirstInput<Endless> {
  static constexpr OpInfo info = info_of("test_endless");
  Value formula(Operands x) const { return emit(Endless{}, {x[0]}); }
};

struct Tree : LikeItsFirstInput<
                  Tree> {  // contains itself three times: writing it to a depth of 16 would take 3^16 nodes
  static constexpr OpInfo info = info_of("test_tree");
  static Value of(Value x) { return emit(Tree{}, {x}); }
  Value formula(Operands x) const { return of(x[0]) + of(x[0] + 1.0) * of(x[0] + 2.0); }
};

struct Odd : LikeItsFirstInput<Odd> {  // contains Even
  static constexpr OpInfo info = info_of("test_odd");
  Value formula(Operands x) const;
};
struct Even : LikeItsFirstInput<Even> {  // contains Odd
  static constexpr OpInfo info = info_of("test_even");
  Value formula(Operands x) const { return emit(Odd{}, {x[0]}); }
};
Value Odd::formula(Operands x) const { return emit(Even{}, {x[0] + 1.0}); }

struct Noise : LikeItsFirstInput<Noise> {  // x[1] is the RNG state
  static constexpr OpInfo info = info_of("test_noise", {2, 2});
  Value formula(Operands x) const { return x[0] * rand(x[1], x[0].shape()); }
};

struct OtherShape : LikeItsFirstInput<OtherShape> {
  static constexpr OpInfo info = info_of("test_other_shape");
  Value formula(Operands x) const { return sum(x[0]); }
};

void run_bump(const KernelContext& c) {
  for (int64_t i = 0; i < c.output().numel(); ++i) {
    const float x = c.input(0).as<const float>()[i];
    c.output().as<float>()[i] = std::exp(-x * x) + 100;
  }
}
std::optional<std::string> only_f32(const KernelQuery& query) {
  if (query.inputs[0].dtype == DType::f32) return std::nullopt;
  return "takes f32 only";
}
constexpr OpKernel kKernels[] = {{"test_bump", {.name = "plain", .run = run_bump, .can_run = only_f32}},
                                 {"test_whole", {.name = "plain", .run = run_bump, .can_run = only_f32}}};

class Formulas : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool added = [] {
      add_plugin_ops(kOpDefs<Shrink, Rows, Bump, Whole, Around, SumAndProduct, Endless, OtherShape, Tree, Odd,
                             Even, Noise>);
      add_plugin_kernels(PluginDevice::kCpu, kKernels);
      return true;
    }();
    (void)added;
  }

  static std::shared_ptr<Model> model(const std::string& body, const std::string& inputs = "x: f32[4,6]") {
    return parse_text("entry main(" + inputs + ") {\n" + body + "\n}");
  }
  static std::vector<std::string> steps(const Model& model, const std::string& device = "cpu",
                                        const SessionOptions& options = {}) {
    std::vector<std::string> names;
    for (const Step& step : compile_entry(model, "main", {}, target_of(device), options).plan.steps)
      names.emplace_back(step.op->name());
    return names;
  }
  static std::vector<double> run(const std::shared_ptr<Model>& model, const SessionOptions& options = {}) {
    return Session(model, options).run("main", {{"x", x()}}).at("y").to_doubles();
  }
  static Tensor x() {
    std::vector<float> values;
    for (int i = 0; i < 24; ++i) values.push_back(0.1F * static_cast<float>(i - 9));
    return Tensor::of<float>({4, 6}, values);
  }
  static std::string error_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }
};
using Names = std::vector<std::string>;

// Values and gradients in all dtypes, with any number of threads, without reuse of memory, and after writing and reading.
TEST_F(Formulas, AnOpWithAFormulaAloneIsAnOpLikeOthers) {
  check({.name = "test_shrink",
         .inputs = {real({3, 5})},
         .build =
             [](const Inputs& x) {
               return Outputs{emit(Shrink{{}, 3}, {x[0]})};
             },
         .reference =
             [](const Refs& x) {
               Ref y = x[0];
               for (double& v : y.data) v = 3 * v / (v * v + 1);
               return Refs{y};
             }});
  check({.name = "test_sum_and_product",
         .inputs = {real({7}), real({7})},
         .build =
             [](const Inputs& x) {
               return Outputs(emit_node(SumAndProduct{}, {x[0], x[1]}));
             },
         .reference =
             [](const Refs& x) {
               Ref sum = x[0], product = x[0];
               for (int64_t i = 0; i < x[0].numel(); ++i) sum[i] += x[1][i], product[i] *= x[1][i];
               return Refs{sum, product};
             }});
}

TEST_F(Formulas, AnOpBetweenOthersBecomesPartOfOneFusedKernel) {
  const auto chain = model("%a = exp(x)\n%b = test_shrink(%a) {scale=2}\n%c = neg(%b)\nreturn y = %c");
  EXPECT_EQ(steps(*chain), Names{"fused"});
  EXPECT_EQ(run(chain), run(chain, {.disabled = {"fuse_elementwise"}}));
  EXPECT_EQ(run(chain), run(chain, {.optimize = false}));
  EXPECT_EQ(steps(*model("%a = exp(x)\n%b = test_rows(%a)\n%c = neg(%b)\nreturn y = %c")), Names{"fused"});
  const auto nested = model("%a = exp(x)\n%b = test_around(%a)\nreturn y = %b");
  EXPECT_EQ(steps(*nested), Names{"fused"});
  EXPECT_EQ(run(nested), run(nested, {.optimize = false}));
}

// Its kernel wins where the op stands alone, or beside what does not fuse.
TEST_F(Formulas, AKernelRunsWhereItsOpStandsAlone) {
  const auto alone = model("%a = test_bump(x)\nreturn y = %a");
  EXPECT_EQ(steps(*alone), Names{"test_bump"});
  EXPECT_GT(run(alone)[0], 100);
  const auto beside_flip = model("%a = flip(x) {axes=(0)}\n%b = test_bump(%a)\nreturn y = %b");
  EXPECT_EQ(steps(*beside_flip).back(), "test_bump");
  const auto chain = model("%a = test_bump(x)\n%b = neg(%a)\nreturn y = %b");
  EXPECT_EQ(steps(*chain), Names{"fused"});
  EXPECT_GT(run(chain)[0], -1);
  const SessionOptions kernels = {.disabled = {"fuse_formulas"}};
  EXPECT_EQ(steps(*chain, "cpu", kernels), (Names{"test_bump", "neg"}));
  EXPECT_LT(run(chain, kernels)[0], -100);
  // A switch that keeps nodes from fusing keeps the kernel, too.
  EXPECT_EQ(steps(*chain, "cpu", {.disabled = {"fuse_elementwise"}}), (Names{"test_bump", "neg"}));
  const auto two = model("%a = test_bump(x)\n%b = test_bump(%a)\nreturn y = %b");
  EXPECT_EQ(steps(*two), Names{"fused"});
  // The kernel takes f32 only.
  EXPECT_EQ(steps(*model("%a = test_bump(x)\nreturn y = %a", "x: bf16[4,6]")), Names{"fused"});
}

// Fused kernels are made of the library's formulas only.
TEST_F(Formulas, AnElementwiseOpWithoutAFormulaIsAKernelOfItsOwn) {
  const auto chain =
      model("%a = exp(x)\n%n = neg(%a)\n%b = test_whole(%n)\n%c = neg(%b)\n%d = exp(%c)\nreturn y = %d");
  EXPECT_EQ(steps(*chain), (Names{"fused", "test_whole", "fused"}));
}

TEST_F(Formulas, AGraphicsCardNeedsNoKernelEither) {
  if (!find_device_kind("cuda")) GTEST_SKIP() << "this build has no GPU kernels";
  EXPECT_EQ(steps(*model("%a = exp(x)\n%b = test_bump(%a)\n%c = neg(%b)\nreturn y = %c"), "cuda"),
            Names{"fused"});
  EXPECT_EQ(steps(*model("%b = test_bump(x)\nreturn y = %b"), "cuda"), Names{"fused"});
  if (resolve_device("auto") == "cpu") return;
  const auto chain = model("%a = exp(x)\n%b = test_rows(%a)\n%c = neg(%b)\nreturn y = %c");
  const std::vector<double> expected = run(chain), got = run(chain, {.device = "cuda"});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << i;
}

// A fused chain computes in f32 and rounds its result once.
TEST_F(Formulas, AChainInBf16RoundsOnce) {
  const auto wide =
      model("%s = neg(x)\n%a = test_rows(%s)\n%b = neg(%a)\n%c = cast(%b) {dtype=f32}\nreturn y = %c");
  const auto low = model(
      "%h = cast(x) {dtype=bf16}\n%s = neg(%h)\n%a = test_rows(%s)\n%b = neg(%a)\n"
      "%c = cast(%b) {dtype=f32}\nreturn y = %c");
  const std::vector<double> expected = run(wide), got = run(low);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0.006 * std::abs(expected[i]));
  EXPECT_EQ(steps(*low), Names{"fused"});
}

TEST_F(Formulas, AGradientFollowsFromTheFormulaAndFuses) {
  const auto made = model("%a = test_shrink(x) {scale=2}\n%b = mul(%a, x)\n%s = sum(%b)\nreturn s = %s");
  Graph& graph = made->entry("main");
  graph.add_output("y", passes::gradients(graph, graph.output("s"), {graph.input("x")})[0]);
  const std::vector<double> got = run(made), at = x().to_doubles();
  for (size_t i = 0; i < got.size(); ++i) {  // the function is 2 x^2 / (x^2 + 1)
    const double below = at[i] * at[i] + 1;
    EXPECT_NEAR(got[i], 4 * at[i] / (below * below), 1e-6);
  }
  const Names names = steps(*made);
  EXPECT_LE(std::ranges::count(names, "fused"), 2);
  for (const std::string& name : names) EXPECT_TRUE(name == "fused" || name == "sum") << name;
}

TEST_F(Formulas, MistakesNameTheOp) {
  const auto endless = model("%a = test_endless(x)\nreturn y = %a");
  EXPECT_NE(error_of([&] { steps(*endless); }).find("the formula of op 'test_endless'"), std::string::npos);
  const auto endless_loss = model("%a = test_endless(x)\n%s = sum(%a)\nreturn y = %s");
  Graph& graph = endless_loss->entry("main");
  EXPECT_NE(error_of([&] {
              passes::gradients(graph, graph.output("y"), {graph.input("x")});
            }).find("op 'test_endless' leads back to its own op (test_endless -> test_endless)"),
            std::string::npos);
  const std::string other = error_of([&] { steps(*model("%a = test_other_shape(x)\nreturn y = %a")); });
  EXPECT_NE(other.find(
                "the formula of op 'test_other_shape' gives f32[] as result 0, and its rule infers f32[4,6]"),
            std::string::npos)
      << other;
  EXPECT_NE(other.find("node 'a'"), std::string::npos) << other;
}

TEST_F(Formulas, OneThatLeadsBackToItselfEndsAtOnce) {
  for (const auto& [op, way] : {std::pair("test_tree", "(test_tree -> test_tree)"),
                                std::pair("test_odd", "(test_even -> test_odd -> test_even)")}) {
    const auto made = model(fmt::format("%a = {}(x)\n%s = sum(%a)\nreturn y = %s", op));
    const std::string expanded = error_of([&] { steps(*made); });
    EXPECT_NE(expanded.find(way), std::string::npos) << expanded;
    Graph& graph = made->entry("main");
    const std::string differentiated =
        error_of([&] { passes::gradients(graph, graph.output("y"), {graph.input("x")}); });
    EXPECT_NE(differentiated.find(way), std::string::npos) << differentiated;
  }
}

// Autodiff writes a formula once more, and would draw other numbers than the forward pass.
TEST_F(Formulas, OneThatDrawsRandomNumbersIsRefused) {
  const auto made = model("%a = test_noise(x, rng)\n%b = test_noise(%a, rng)\n%s = sum(%b)\nreturn y = %s",
                          "x: f32[4,6], rng: i64[2]");
  Graph& graph = made->entry("main");
  const std::string expected = "the formula of op 'test_noise' draws random numbers (rand), ";
  EXPECT_NE(error_of([&] { steps(*made); }).find(expected), std::string::npos);
  EXPECT_NE(error_of([&] { passes::gradients(graph, graph.output("y"), {graph.input("x")}); }).find(expected),
            std::string::npos);
}

}  // namespace
}  // namespace genesis
