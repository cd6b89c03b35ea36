// Tests every op that has a kernel with a NaN among its numbers and with tensors of no elements, on every device and by every
// implementation. The rules are PyTorch's: a NaN reaches all results that are computed from it, maxima and orders included, and no
// others; a sum of nothing is 0, and a mean of nothing is NaN. Three tables: formulas (all ops that are elementwise), ops with other
// shapes, and ops for which a case of its own makes no sense, with the reason.
#include <map>
#include <set>

#include "passes/training/autodiff.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/cast_group.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ops/tensor/sort.h"
#include "tests/nan_and_empty.h"

namespace genesis::testing {
namespace {

// --- formulas

struct Exception {
  std::string_view op;
  const char* letters;  // results for {0.5, NaN, 0.75} in one operand and {0.5, 0.625, 0.75} in the other
  const char* reason;
};
const Exception kExceptions[] = {
    {"isnan", "010", "asks for NaN"},        {"isinf", "000", "asks for infinity"},
    {"isfinite", "101", "asks for numbers"}, {"sign", "101", "0 for NaN, as in PyTorch"},
    {"eq", "101", "NaN equals nothing"},     {"ne", "010", "NaN equals nothing"},
    {"lt", "000", "NaN has no order"},       {"gt", "000", "NaN has no order"},
    {"le", "101", "NaN has no order"},       {"ge", "101", "NaN has no order"},
    {"logical_not", "000", "NaN is not 0"},  {"logical_and", "111", "NaN is not 0"},
    {"logical_or", "111", "NaN is not 0"},
};

bool is_formula(const OpDef& op) {
  return op.info.elementwise && op.name() != "cast" && op.name() != "where";
}

std::string expected_letters(std::string_view op) {
  for (const Exception& exception : kExceptions)
    if (exception.op == op) return exception.letters;
  return ".n.";
}

OpCase formula_case(const OpDef& op, const std::vector<int64_t>& shape, int with_nan) {
  OpCase one{.name = std::string(op.name()), .inputs = {}};
  for (int i = 0; i < op.info.inputs.min; ++i) one.inputs.push_back(some_numbers(shape, i == with_nan));
  one.build = [&op](const Inputs& x) {
    const Attributes attributes =
        op.name() == "clamp" ? to_attributes(ops::Clamp{.min = 0.6, .max = 0.7}) : op.canonical(Attributes{});
    return emit_node(op, attributes, x.values);
  };
  return one;
}

TEST(NanAndEmpty, Formulas) {
  for (const OpDef* op : all_ops()) {
    if (!is_formula(*op)) continue;
    for (int i = 0; i < op->info.inputs.min; ++i)
      expect_letters(formula_case(*op, {3}, i), {expected_letters(op->name())});
    expect_letters(formula_case(*op, {2, 0}, -1), {""});
  }
}

// --- ops with other shapes

using Row = NanAndEmptyRow;
using Build = std::function<Outputs(const Inputs&)>;
using Unary = Value (*)(Value);

const std::vector<EmptyCase> kNoRows = {{{{0, 3}}, {""}}},
                             kNoRowsOrColumns = {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}},
                             kNoRowsOfTwo = {{{{0, 3}, {0, 3}}, {""}}};

CaseInput x23() { return some_numbers({2, 3}); }
CaseInput at(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return integer_data({n}, std::move(values));
}

// Returns the gradient of the sum of the squares of an output with respect to the first input.
Build gradient_of(const std::function<Value(const Inputs&)>& op) {
  return [op](const Inputs& x) {
    const Value y = op(x);
    return Outputs{passes::gradients(x.graph, sum(y * y), {x[0]})[0]};
  };
}

Row unary(std::string_view op, Unary f, std::string letters, std::vector<EmptyCase> empty) {
  return {
      op, {x23()}, [f](const Inputs& x) { return Outputs{f(x[0])}; }, {std::move(letters)}, std::move(empty)};
}
Row gradient(std::string_view op, Unary f, std::string letters, std::vector<EmptyCase> empty) {
  return {op,
          {x23()},
          gradient_of([f](const Inputs& x) { return f(x[0]); }),
          {std::move(letters)},
          std::move(empty)};
}

// Expects these letters for [2, 0], and no results for [0, 3].
std::vector<EmptyCase> no_columns(std::string letters) {
  return {{{{2, 0}}, {std::move(letters)}}, {{{0, 3}}, {""}}};
}
CaseInput column(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return integer_data({n, 1}, std::move(values));
}
Outputs both(const ValuesAndIndices& sorted) { return {sorted.values, sorted.indices}; }

const Row kReductions[] = {
    unary(
        "sum", [](Value x) { return sum(x, {1}); }, "n.", no_columns("00")),
    unary(
        "mean", [](Value x) { return mean(x, {1}); }, "n.", no_columns("nn")),
    unary(
        "prod", [](Value x) { return prod(x, {1}); }, "n.", no_columns("11")),
    unary(
        "max", [](Value x) { return max(x, {1}); }, "n.", kNoRows),
    unary(
        "min", [](Value x) { return min(x, {1}); }, "n.", kNoRows),
    unary(
        "argmax", [](Value x) { return argmax(x, 1); }, "12", kNoRows),
    unary(
        "argmin", [](Value x) { return argmin(x, 1); }, "10", kNoRows),
    unary(
        "var", [](Value x) { return var(x, {1}); }, "n.", no_columns("nn")),
    unary(
        "std", [](Value x) { return stddev(x, {1}); }, "n.", no_columns("nn")),
    unary(
        "logsumexp", [](Value x) { return logsumexp(x, {1}); }, "n.", no_columns("--")),
    unary(
        "any", [](Value x) { return any(x, {1}); }, "11", no_columns("00")),
    unary(
        "all", [](Value x) { return all(x, {1}); }, "11", no_columns("11")),
    unary(
        "cumsum", [](Value x) { return cumsum(x, 1); }, ".nn...", no_columns("")),
    {"sum_squares",
     {x23()},
     [](const Inputs& x) { return Outputs{emit(ops::SumSquares{}, {x[0]})}; },
     {"n"},
     {{{{0, 3}}, {"0"}}}},
    {"sort",
     {x23()},
     [](const Inputs& x) { return both(sort(x[0], 1)); },
     {"..n...", "021012"},
     {{{{0, 3}}, {"", ""}}, {{{2, 0}}, {"", ""}}}},
    {"topk",
     {x23()},
     [](const Inputs& x) { return both(topk(x[0], 2, 1)); },
     {"n...", "1221"},
     {{{{0, 3}}, {"", ""}}}},
};

const Row kMoves[] = {
    unary(
        "cast", [](Value x) { return cast(x, x.dtype() == DType::f32 ? DType::f64 : DType::f32); }, ".n....",
        kNoRows),
    {"where",
     {x23(), x23()},
     [](const Inputs& x) {
       return Outputs{formula("where", {gt(x[1], scalar_like(x[1], 0.6)), x[0], x[1]})};
     },
     {".n...."},
     kNoRowsOfTwo},
    {"cast_group",
     {x23(), x23()},
     [](const Inputs& x) {
       return cast_group({{x[0]}, {x[1], x[0]}}, x[0].dtype());
     },
     {".n....", ".......n...."},
     {{{{0, 3}, {0, 3}}, {"", ""}}}},
    {"reshape",
     {x23()},
     [](const Inputs& x) {
       return Outputs{reshape(x[0], {-1, 1})};
     },
     {".n...."},
     {}},
    unary(
        "expand",
        [](Value x) {
          return expand(x, {2, x.dim(0), 3});
        },
        ".n.....n....", kNoRows),
    unary(
        "permute", [](Value x) { return transpose(x); }, "..n...", kNoRowsOrColumns),
    unary(
        "flip", [](Value x) { return flip(x, {0}); }, "....n.", kNoRows),
    unary(
        "roll", [](Value x) { return roll(x, {1}, {1}); }, "..n...", kNoRowsOrColumns),
    unary(
        "tril", [](Value x) { return tril(x); }, ".00..0", kNoRowsOrColumns),
    unary(
        "triu", [](Value x) { return triu(x); }, ".n.0..", kNoRowsOrColumns),
    unary(
        "slice", [](Value x) { return slice(x, 1, 1); }, "n...", kNoRows),
    gradient(
        "unslice", [](Value x) { return slice(x, 1, 1); }, "0n.0..", kNoRows),
    {"concat",
     {x23(), x23()},
     [](const Inputs& x) {
       return Outputs{concat({x[0], x[1]}, 1)};
     },
     {".n.........."},
     {{{{0, 3}, {0, 2}}, {""}}, {{{2, 0}, {2, 1}}, {".."}}}},
    {"split",
     {x23()},
     [](const Inputs& x) {
       return split(x[0], {1, 2}, 1);
     },
     {"..", "n..."},
     {{{{0, 3}}, {"", ""}}}},
    {"pad",
     {x23()},
     [](const Inputs& x) {
       return Outputs{pad(x[0], {0, 1}, {0, 0})};
     },
     {"0.n.0..."},
     {{{{0, 3}}, {""}}, {{{2, 0}}, {"00"}}}},
    {"dynamic_slice",
     {x23(), integer_data({}, {1})},
     [](const Inputs& x) { return Outputs{dynamic_slice(x[0], x[1], 1, 2)}; },
     {"n..."},
     {{{{0, 3}, {}}, {""}}}},
    {"dynamic_update_slice",
     {x23(), some_numbers({2, 1}), integer_data({}, {0})},
     [](const Inputs& x) { return Outputs{dynamic_update_slice(x[0], x[1], x[2], 1)}; },
     {".n...."},
     {{{{0, 3}, {0, 1}, {}}, {""}}, {{{2, 3}, {2, 0}, {}}, {"......"}}}},
    {"gather",
     {x23(), column({1, 0})},
     [](const Inputs& x) { return Outputs{gather(x[0], 1, x[1])}; },
     {"n."},
     {{{{2, 3}, {2, 0}}, {""}}}},
    {"scatter",
     {x23(), column({0, 0}), some_numbers({2, 1})},
     [](const Inputs& x) { return Outputs{scatter(x[0], 1, x[1], x[2])}; },
     {".n...."},
     {{{{2, 3}, {2, 0}, {2, 0}}, {"......"}}}},
    {"scatter_add",
     {x23(), column({0, 0}), some_numbers({2, 1})},
     [](const Inputs& x) { return Outputs{scatter_add(x[0], 1, x[1], x[2])}; },
     {".n...."},
     {{{{2, 3}, {2, 0}, {2, 0}}, {"......"}}}},
    {"index_select",
     {x23(), at({1, 0})},
     [](const Inputs& x) { return Outputs{index_select(x[0], 1, x[1])}; },
     {"n..."},
     {{{{2, 3}, {0}}, {""}}, {{{0, 3}, {2}}, {""}}}},
    {"index_add",
     {x23(), at({0}), some_numbers({2, 1})},
     [](const Inputs& x) { return Outputs{index_add(x[0], 1, x[1], x[2])}; },
     {".n...."},
     {{{{2, 3}, {0}, {2, 0}}, {"......"}}, {{{0, 3}, {1}, {0, 1}}, {""}}}},
    {"embedding",
     {some_numbers({3, 2}), at({0, 2})},
     [](const Inputs& x) { return Outputs{embedding(x[1], x[0])}; },
     {".n.."},
     {{{{3, 2}, {0}}, {""}}, {{{3, 0}, {2}}, {""}}}},
    {"embedding_grad",
     {some_numbers({3, 2}), at({0, 2})},
     gradient_of([](const Inputs& x) { return embedding(x[1], x[0]); }),
     {".n00.."},
     {{{{3, 2}, {0}}, {"000000"}}, {{{3, 0}, {2}}, {""}}}},
    {"full",
     {x23()},
     [](const Inputs& x) { return Outputs{x[0] * full(x.graph, x[0].shape(), 2.0, x[0].dtype())}; },
     {".n...."},
     kNoRows},
    {"arange", {}, [](const Inputs& x) { return Outputs{arange(x.graph, 0)}; }, {}, {{{}, {""}}}},
    {"one_hot", {at({2, 0})}, [](const Inputs& x) { return Outputs{one_hot(x[0], 3)}; }, {}, {{{{0}}, {""}}}},
};

const std::map<std::string_view, std::string_view> kElsewhere = {
    {"fused", "a program of formulas"},
    {"send", "exchange_cases_test.cpp sends empty tensors; a NaN is bytes like all others"},
    {"recv", "as send"},
    {"rand", "reads no reals; random_cases_test.cpp draws no elements"},
    {"randn", "as rand"},
    {"randint", "as rand"},
    {"loop", "moves what its body gives it; executor/loop_test.cpp runs it"},
    {"rng_next", "is always two integers"},
    {"bernoulli",
     "a probability of NaN is no probability (0 is drawn); random_cases_test.cpp draws no elements"},
    {"multinomial", "a weight of NaN is an error of the run, and so is choosing from nothing"},
    {"sample_logits", "as multinomial"},
    {"sgd_update", "update_cases_test.cpp updates no elements; optimizer_test.cpp has gradients of NaN"},
    {"adam_update", "as sgd_update"},
    {"lion_update", "as sgd_update"},
    {"join_halves", "update_cases_test.cpp joins no elements; a NaN is bits like all others"},
    {"dim_value", "has no inputs and one element"},
};

TEST(NanAndEmpty, Reductions) { check_nan_and_empty(kReductions); }
TEST(NanAndEmpty, Moves) { check_nan_and_empty(kMoves); }

TEST(NanAndEmpty, HasEveryOpWithAKernel) {
  std::multiset<std::string_view> listed;
  for (const auto rows :
       {std::span<const Row>(kReductions), std::span<const Row>(kMoves), nan_and_empty_layers()})
    for (const Row& row : rows) listed.insert(row.op);
  for (const OpDef* op : all_ops())
    EXPECT_EQ(listed.count(op->name()) + kElsewhere.count(op->name()) + is_formula(*op), 1) << op->name();
}

}  // namespace
}  // namespace genesis::testing
