// Tests every op that has a kernel with a NaN among its numbers and with tensors of no elements, on every device and by every
// implementation. The rules are PyTorch's: a NaN reaches all results that are computed from it, maxima and orders included, and no
// others; a sum of nothing is 0, and a mean of nothing is NaN. Three tables: formulas (all ops that are elementwise), ops with other
// shapes, and ops for which a case of its own makes no sense, with the reason.
#include <cmath>
#include <map>
#include <set>

#include "passes/training/autodiff.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/cast_group.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ops/tensor/sort.h"
#include "tests/kernel_runs.h"
#include "tests/op_graph.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using Sizes = std::vector<int64_t>;
using Build = std::function<Outputs(const Inputs&)>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Results in letters, one per element: n is NaN, - is minus infinity, a digit is this number, . is any finite number.
bool is_like(const std::vector<double>& values, const std::string& letters) {
  if (values.size() != letters.size()) return false;
  for (size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    const bool fits = letters[i] == 'n'   ? std::isnan(v)
                      : letters[i] == '-' ? std::isinf(v) && v < 0
                      : letters[i] == '.' ? std::isfinite(v)
                                          : v == letters[i] - '0';
    if (!fits) return false;
  }
  return true;
}

std::string in_letters(const std::vector<double>& values) {
  std::string letters;
  for (const double v : values)
    letters += std::isnan(v)                    ? 'n'
               : std::isinf(v)                  ? (v < 0 ? '-' : '+')
               : v >= 0 && v < 10 && v == int(v) ? static_cast<char>('0' + int(v))
                                                : '.';
  return letters;
}

// Runs a case by every implementation and compares its results with these letters. An empty list only asks for results.
void expect_letters(const OpCase& op_case, DType dtype, const std::vector<std::string>& letters) {
  const Built built = build(op_case, make_values(op_case, dtype), dtype, nullptr);
  const auto compare = [&](const std::string& device, const std::string& how, const NamedTensors& results) {
    for (size_t i = 0; i < letters.size() && i < built.outputs.size(); ++i) {
      const std::vector<double> y = results.at(built.outputs[i]).to_doubles();
      EXPECT_TRUE(is_like(y, letters[i]))
          << op_case.name << " in " << name_of(dtype) << " on " << device << how << ", output " << i << " is "
          << in_letters(y) << ", not " << letters[i];
    }
  };
  for (const std::string device : {"cpu", "cuda"}) {
    if (device == "cuda" && !why_no_cuda().empty()) continue;
    run_by_every_implementation(
        built.model, built.inputs, {.device = device},
        [&](const NamedTensors& results, const std::string& how) { compare(device, how, results); });
    run_by_first_implementations(built.model, built.inputs, {.device = device, .optimise = false},
                                 [&](const NamedTensors& results, const std::string&) {
                                   compare(device, ", not optimized", results);
                                 });
  }
}

std::vector<DType> dtypes_of(const OpCase& op_case) {
  std::vector<DType> dtypes = {DType::f32};
  if (op_case.f64) dtypes.push_back(DType::f64);
  if (op_case.low_precision) dtypes.insert(dtypes.end(), {DType::bf16, DType::f16});
  return dtypes;
}

void expect_letters(const OpCase& op_case, const std::vector<std::string>& letters) {
  for (const DType dtype : dtypes_of(op_case)) expect_letters(op_case, dtype, letters);
}

// Returns numbers in [0.5, 2), the second of which is NaN if `has_nan`.
CaseInput numbers(Sizes shape, bool has_nan) {
  CaseInput input = real(std::move(shape));
  int64_t count = 1;
  for (const int64_t size : input.shape) count *= size;
  for (int64_t i = 0; i < count; ++i) input.values.push_back(0.5 + static_cast<double>(i % 12) / 8);
  if (has_nan) input.values[1] = kNan;
  return input;
}

// --- formulas

struct Exception {
  std::string_view op;
  const char* letters;  // of {0.5, NaN, 0.75} in one operand beside {0.5, 0.625, 0.75}
  const char* reason;
};
const Exception kExceptions[] = {
    {"isnan", "010", "asks for NaN"},
    {"isinf", "000", "asks for infinity"},
    {"isfinite", "101", "asks for numbers"},
    {"sign", "101", "0 for NaN, as in PyTorch"},
    {"eq", "101", "NaN equals nothing"},
    {"ne", "010", "NaN equals nothing"},
    {"lt", "000", "NaN has no order"},
    {"gt", "000", "NaN has no order"},
    {"le", "101", "NaN has no order"},
    {"ge", "101", "NaN has no order"},
    {"logical_not", "000", "NaN is not 0"},
    {"logical_and", "111", "NaN is not 0"},
    {"logical_or", "111", "NaN is not 0"},
};

bool is_formula(const OpDef& op) { return op.info.elementwise && op.name() != "cast" && op.name() != "where"; }

std::string letters_of(std::string_view op) {
  for (const Exception& exception : kExceptions)
    if (exception.op == op) return exception.letters;
  return ".n.";
}

OpCase formula_case(const OpDef& op, const Sizes& shape, int with_nan) {
  OpCase one{.name = std::string(op.name()), .inputs = {}};
  for (int i = 0; i < op.info.inputs.min; ++i) one.inputs.push_back(numbers(shape, i == with_nan));
  one.build = [&op](const Inputs& x) {
    const Attributes attributes = op.name() == "clamp" ? to_attributes(ops::Clamp{.min = 0.6, .max = 0.7})
                                                       : op.canonical(Attributes{});
    return emit_node(op, attributes, x.values);
  };
  return one;
}

TEST(NanAndEmpty, Formulas) {
  for (const OpDef* op : all_ops()) {
    if (!is_formula(*op)) continue;
    for (int i = 0; i < op->info.inputs.min; ++i)
      expect_letters(formula_case(*op, {3}, i), {letters_of(op->name())});
    expect_letters(formula_case(*op, {2, 0}, -1), {""});
  }
}

// --- ops with other shapes

struct Empty {
  std::vector<Sizes> shapes;         // of the inputs, in place of those of the row
  std::vector<std::string> letters;  // the results
};

struct Row {
  std::string_view op;
  std::vector<CaseInput> inputs;  // the second element of the first input becomes NaN
  Build build;
  std::vector<std::string> letters;  // the results; none: the op has no case with NaN
  std::vector<Empty> empty;
  bool has_f64 = true;
};

CaseInput x23() { return numbers({2, 3}, false); }
CaseInput at(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return integer_data({n}, std::move(values));
}
CaseInput column(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return integer_data({n, 1}, std::move(values));
}
Outputs both(const ValuesAndIndices& sorted) { return {sorted.values, sorted.indices}; }

// Returns the gradient of the sum of the squares of an output with respect to the first input.
Build gradient_of(const std::function<Value(const Inputs&)>& op) {
  return [op](const Inputs& x) {
    const Value y = op(x);
    return Outputs{passes::gradients(x.graph, sum(y * y), {x[0]})[0]};
  };
}

const Row kReductions[] = {
    {"sum", {x23()}, [](const Inputs& x) { return Outputs{sum(x[0], {1})}; }, {"n."}, {{{{2, 0}}, {"00"}}, {{{0, 3}}, {""}}}},
    {"mean", {x23()}, [](const Inputs& x) { return Outputs{mean(x[0], {1})}; }, {"n."}, {{{{2, 0}}, {"nn"}}, {{{0, 3}}, {""}}}},
    {"prod", {x23()}, [](const Inputs& x) { return Outputs{prod(x[0], {1})}; }, {"n."}, {{{{2, 0}}, {"11"}}, {{{0, 3}}, {""}}}},
    {"max", {x23()}, [](const Inputs& x) { return Outputs{max(x[0], {1})}; }, {"n."}, {{{{0, 3}}, {""}}}},
    {"min", {x23()}, [](const Inputs& x) { return Outputs{min(x[0], {1})}; }, {"n."}, {{{{0, 3}}, {""}}}},
    {"argmax", {x23()}, [](const Inputs& x) { return Outputs{argmax(x[0], 1)}; }, {"12"}, {{{{0, 3}}, {""}}}},
    {"argmin", {x23()}, [](const Inputs& x) { return Outputs{argmin(x[0], 1)}; }, {"10"}, {{{{0, 3}}, {""}}}},
    {"var", {x23()}, [](const Inputs& x) { return Outputs{var(x[0], {1})}; }, {"n."}, {{{{2, 0}}, {"nn"}}, {{{0, 3}}, {""}}}},
    {"std", {x23()}, [](const Inputs& x) { return Outputs{stddev(x[0], {1})}; }, {"n."}, {{{{2, 0}}, {"nn"}}, {{{0, 3}}, {""}}}},
    {"logsumexp", {x23()}, [](const Inputs& x) { return Outputs{logsumexp(x[0], {1})}; }, {"n."}, {{{{2, 0}}, {"--"}}, {{{0, 3}}, {""}}}},
    {"any", {x23()}, [](const Inputs& x) { return Outputs{any(x[0], {1})}; }, {"11"}, {{{{2, 0}}, {"00"}}, {{{0, 3}}, {""}}}},
    {"all", {x23()}, [](const Inputs& x) { return Outputs{all(x[0], {1})}; }, {"11"}, {{{{2, 0}}, {"11"}}, {{{0, 3}}, {""}}}},
    {"cumsum", {x23()}, [](const Inputs& x) { return Outputs{cumsum(x[0], 1)}; }, {".nn..."}, {{{{2, 0}}, {""}}, {{{0, 3}}, {""}}}},
    {"sum_squares", {x23()}, [](const Inputs& x) { return Outputs{emit(ops::SumSquares{}, {x[0]})}; }, {"n"}, {{{{0, 3}}, {"0"}}}},
    {"sort", {x23()}, [](const Inputs& x) { return both(sort(x[0], 1)); }, {"..n...", "021012"}, {{{{0, 3}}, {"", ""}}, {{{2, 0}}, {"", ""}}}},
    {"topk", {x23()}, [](const Inputs& x) { return both(topk(x[0], 2, 1)); }, {"n...", "1221"}, {{{{0, 3}}, {"", ""}}}},
};

const Row kMoves[] = {
    {"cast", {x23()}, [](const Inputs& x) { return Outputs{cast(x[0], x[0].dtype() == DType::f32 ? DType::f64 : DType::f32)}; }, {".n...."}, {{{{0, 3}}, {""}}}, false},
    {"where", {x23(), x23()}, [](const Inputs& x) { return Outputs{formula("where", {gt(x[1], scalar_like(x[1], 0.6)), x[0], x[1]})}; }, {".n...."}, {{{{0, 3}, {0, 3}}, {""}}}},
    {"cast_group", {x23(), x23()}, [](const Inputs& x) { return cast_group({{x[0]}, {x[1], x[0]}}, x[0].dtype()); }, {".n....", ".......n...."}, {{{{0, 3}, {0, 3}}, {"", ""}}}},
    {"reshape", {x23()}, [](const Inputs& x) { return Outputs{reshape(x[0], {-1, 1})}; }, {".n...."}, {}},
    {"expand", {x23()}, [](const Inputs& x) { return Outputs{expand(x[0], {2, x[0].dim(0), 3})}; }, {".n.....n...."}, {{{{0, 3}}, {""}}}},
    {"permute", {x23()}, [](const Inputs& x) { return Outputs{transpose(x[0])}; }, {"..n..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"flip", {x23()}, [](const Inputs& x) { return Outputs{flip(x[0], {0})}; }, {"....n."}, {{{{0, 3}}, {""}}}},
    {"roll", {x23()}, [](const Inputs& x) { return Outputs{roll(x[0], {1}, {1})}; }, {"..n..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"tril", {x23()}, [](const Inputs& x) { return Outputs{tril(x[0])}; }, {".00..0"}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"triu", {x23()}, [](const Inputs& x) { return Outputs{triu(x[0])}; }, {".n.0.."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"slice", {x23()}, [](const Inputs& x) { return Outputs{slice(x[0], 1, 1)}; }, {"n..."}, {{{{0, 3}}, {""}}}},
    {"unslice", {x23()}, gradient_of([](const Inputs& x) { return slice(x[0], 1, 1); }), {"0n.0.."}, {{{{0, 3}}, {""}}}},
    {"concat", {x23(), x23()}, [](const Inputs& x) { return Outputs{concat({x[0], x[1]}, 1)}; }, {".n.........."}, {{{{0, 3}, {0, 2}}, {""}}, {{{2, 0}, {2, 1}}, {".."}}}},
    {"split", {x23()}, [](const Inputs& x) { return split(x[0], {1, 2}, 1); }, {"..", "n..."}, {{{{0, 3}}, {"", ""}}}},
    {"pad", {x23()}, [](const Inputs& x) { return Outputs{pad(x[0], {0, 1}, {0, 0})}; }, {"0.n.0..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {"00"}}}},
    {"dynamic_slice", {x23(), integer_data({}, {1})}, [](const Inputs& x) { return Outputs{dynamic_slice(x[0], x[1], 1, 2)}; }, {"n..."}, {{{{0, 3}, {}}, {""}}}},
    {"dynamic_update_slice", {x23(), numbers({2, 1}, false), integer_data({}, {0})}, [](const Inputs& x) { return Outputs{dynamic_update_slice(x[0], x[1], x[2], 1)}; }, {".n...."}, {{{{0, 3}, {0, 1}, {}}, {""}}, {{{2, 3}, {2, 0}, {}}, {"......"}}}},
    {"gather", {x23(), column({1, 0})}, [](const Inputs& x) { return Outputs{gather(x[0], 1, x[1])}; }, {"n."}, {{{{2, 3}, {2, 0}}, {""}}}},
    {"scatter", {x23(), column({0, 0}), numbers({2, 1}, false)}, [](const Inputs& x) { return Outputs{scatter(x[0], 1, x[1], x[2])}; }, {".n...."}, {{{{2, 3}, {2, 0}, {2, 0}}, {"......"}}}},
    {"scatter_add", {x23(), column({0, 0}), numbers({2, 1}, false)}, [](const Inputs& x) { return Outputs{scatter_add(x[0], 1, x[1], x[2])}; }, {".n...."}, {{{{2, 3}, {2, 0}, {2, 0}}, {"......"}}}},
    {"index_select", {x23(), at({1, 0})}, [](const Inputs& x) { return Outputs{index_select(x[0], 1, x[1])}; }, {"n..."}, {{{{2, 3}, {0}}, {""}}, {{{0, 3}, {2}}, {""}}}},
    {"index_add", {x23(), at({0}), numbers({2, 1}, false)}, [](const Inputs& x) { return Outputs{index_add(x[0], 1, x[1], x[2])}; }, {".n...."}, {{{{2, 3}, {0}, {2, 0}}, {"......"}}, {{{0, 3}, {1}, {0, 1}}, {""}}}},
    {"embedding", {numbers({3, 2}, false), at({0, 2})}, [](const Inputs& x) { return Outputs{embedding(x[1], x[0])}; }, {".n.."}, {{{{3, 2}, {0}}, {""}}, {{{3, 0}, {2}}, {""}}}},
    {"embedding_grad", {numbers({3, 2}, false), at({0, 2})}, gradient_of([](const Inputs& x) { return embedding(x[1], x[0]); }), {".n00.."}, {{{{3, 2}, {0}}, {"000000"}}, {{{3, 0}, {2}}, {""}}}},
    {"full", {x23()}, [](const Inputs& x) { return Outputs{x[0] * full(x.graph, x[0].shape(), 2.0, x[0].dtype())}; }, {".n...."}, {{{{0, 3}}, {""}}}},
    {"arange", {}, [](const Inputs& x) { return Outputs{arange(x.graph, 0)}; }, {}, {{{}, {""}}}},
    {"one_hot", {at({2, 0})}, [](const Inputs& x) { return Outputs{one_hot(x[0], 3)}; }, {}, {{{{0}}, {""}}}},
};

const Row kLayers[] = {
    {"softmax", {x23()}, [](const Inputs& x) { return Outputs{softmax(x[0])}; }, {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"softmax_grad", {x23()}, gradient_of([](const Inputs& x) { return softmax(x[0]); }), {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"log_softmax", {x23()}, [](const Inputs& x) { return Outputs{log_softmax(x[0])}; }, {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"log_softmax_grad", {x23()}, gradient_of([](const Inputs& x) { return log_softmax(x[0]); }), {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"causal_softmax", {x23()}, [](const Inputs& x) { return Outputs{causal_softmax(x[0])}; }, {"nn0..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"layer_norm", {x23()}, [](const Inputs& x) { return Outputs{layer_norm(x[0])}; }, {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"layer_norm_grad", {x23()}, gradient_of([](const Inputs& x) { return layer_norm(x[0]); }), {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"rms_norm", {x23()}, [](const Inputs& x) { return Outputs{rms_norm(x[0])}; }, {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"rms_norm_grad", {x23()}, gradient_of([](const Inputs& x) { return rms_norm(x[0]); }), {"nnn..."}, {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}}},
    {"matmul", {x23(), numbers({3, 2}, false)}, [](const Inputs& x) { return Outputs{matmul(x[0], x[1])}; }, {"nn.."}, {{{{0, 3}, {3, 2}}, {""}}, {{{2, 0}, {0, 2}}, {"0000"}}}},
    {"linear", {x23(), numbers({4, 3}, false)}, [](const Inputs& x) { return Outputs{linear(x[0], x[1])}; }, {"nnnn...."}, {{{{0, 3}, {4, 3}}, {""}}, {{{2, 0}, {4, 0}}, {"00000000"}}, {{{2, 3}, {0, 3}}, {""}}}},
    {"swiglu", {x23(), x23()}, [](const Inputs& x) { return Outputs{swiglu(x[0], x[1])}; }, {".n...."}, {{{{0, 3}, {0, 3}}, {""}}}},
    {"swiglu_grad", {x23(), x23()}, gradient_of([](const Inputs& x) { return swiglu(x[0], x[1]); }), {".n...."}, {{{{0, 3}, {0, 3}}, {""}}}},
    {"rope", {numbers({1, 2, 1, 4}, false), at({0, 1})}, [](const Inputs& x) { return Outputs{rope(x[0], x[1])}; }, {".n.n...."}, {{{{1, 0, 1, 4}, {0}}, {""}}, {{{0, 2, 1, 4}, {2}}, {""}}}},
    {"attention", {numbers({1, 2, 1, 4}, false), numbers({1, 2, 1, 4}, false), numbers({1, 2, 1, 4}, false)}, [](const Inputs& x) { return Outputs{attention(x[0], x[1], x[2])}; }, {"nnnn...."}, {{{{1, 0, 1, 4}, {1, 2, 1, 4}, {1, 2, 1, 4}}, {""}}, {{{0, 2, 1, 4}, {0, 2, 1, 4}, {0, 2, 1, 4}}, {""}}, {{{1, 2, 1, 4}, {1, 0, 1, 4}, {1, 0, 1, 4}}, {"00000000"}}}},
    {"attention_grad", {numbers({1, 2, 1, 4}, false), numbers({1, 2, 1, 4}, false), numbers({1, 2, 1, 4}, false)}, gradient_of([](const Inputs& x) { return attention(x[0], x[1], x[2]); }), {"nnnn...."}, {{{{1, 0, 1, 4}, {1, 2, 1, 4}, {1, 2, 1, 4}}, {""}}, {{{1, 2, 1, 4}, {1, 0, 1, 4}, {1, 0, 1, 4}}, {"00000000"}}}},
    {"cached_attention", {numbers({1, 1, 1, 4}, false), numbers({1, 1, 1, 4}, false), numbers({1, 1, 1, 4}, false), numbers({1, 3, 1, 4}, false), numbers({1, 3, 1, 4}, false), integer_data({}, {0})}, [](const Inputs& x) { return cached_attention(x[0], x[1], x[2], x[3], x[4], x[5]); }, {"nnnn", "............", "............"}, {{{{0, 1, 1, 4}, {0, 1, 1, 4}, {0, 1, 1, 4}, {0, 3, 1, 4}, {0, 3, 1, 4}, {}}, {"", "", ""}}}},
    {"cross_entropy", {x23(), at({0, 2})}, [](const Inputs& x) { return Outputs{cross_entropy(x[0], x[1])}; }, {"n"}, {{{{0, 3}, {0}}, {"n"}}}},
    {"cross_entropy_grad", {x23(), at({0, 2})}, [](const Inputs& x) { return Outputs{passes::gradients(x.graph, cross_entropy(x[0], x[1]), {x[0]})[0]}; }, {"nnn..."}, {{{{0, 3}, {0}}, {""}}}},
    {"linear_cross_entropy", {x23(), numbers({4, 3}, false), at({0, 2})}, [](const Inputs& x) { return Outputs{linear_cross_entropy(x[0], x[1], x[2])}; }, {"n"}, {{{{0, 3}, {4, 3}, {0}}, {"n"}}}},
    {"bce", {numbers({3}, false), numbers({3}, false)}, [](const Inputs& x) { return Outputs{bce_loss(x[0] * 0.4, x[1] * 0.4, {}, Reduction::kNone)}; }, {".n."}, {{{{0}, {0}}, {""}}}},
    {"dequantize", {numbers({2, 1}, false), integers({2, 32}, -127, 128, DType::i8)}, [](const Inputs& x) { return Outputs{dequantize(WeightFormat::kQ8, x[1], cast(x[0], DType::f16), DType::f32)}; }, {std::string(32, '.') + std::string(32, 'n')}, {{{{0, 1}, {0, 32}}, {""}}, {{{2, 0}, {2, 0}}, {""}}}, false},
    {"dropout", {x23(), at({42, 3})}, [](const Inputs& x) { return Outputs{dropout(x[1], x[0], 0.3)}; }, {".n...."}, {{{{0, 3}, {2}}, {""}}}},
};

const Row kExchanges[] = {
    {"all_reduce", {x23()}, [](const Inputs& x) { return Outputs{all_reduce(x[0], "data")}; }, {".n...."}, {{{{0, 3}}, {""}}}},
    {"all_gather", {x23()}, [](const Inputs& x) { return Outputs{all_gather(x[0], "data", 1)}; }, {".n...."}, {{{{0, 3}}, {""}}}},
    {"reduce_scatter", {x23()}, [](const Inputs& x) { return Outputs{reduce_scatter(x[0], "data", 1)}; }, {".n...."}, {{{{0, 3}}, {""}}}},
    {"all_to_all", {x23()}, [](const Inputs& x) { return Outputs{all_to_all(x[0], "data", 1)}; }, {".n...."}, {{{{0, 3}}, {""}}}},
    {"broadcast", {x23()}, [](const Inputs& x) { return Outputs{broadcast(x[0], "data")}; }, {".n...."}, {{{{0, 3}}, {""}}}},
};

const std::map<std::string_view, std::string_view> kElsewhere = {
    {"fused", "a program of formulas"},
    {"send", "exchange_cases_test.cpp sends empty tensors; a NaN is bytes like all others"},
    {"recv", "as send"},
    {"rand", "reads no reals; random_cases_test.cpp draws no elements"},
    {"randn", "as rand"},
    {"randint", "as rand"},
    {"rng_next", "is always two integers"},
    {"bernoulli", "a probability of NaN is no probability (0 is drawn); random_cases_test.cpp draws no elements"},
    {"multinomial", "a weight of NaN is an error of the run, and so is choosing from nothing"},
    {"sample_logits", "as multinomial"},
    {"sgd_update", "update_cases_test.cpp updates no elements; optimizer_test.cpp has gradients of NaN"},
    {"adam_update", "as sgd_update"},
    {"lion_update", "as sgd_update"},
    {"join_halves", "update_cases_test.cpp joins no elements; a NaN is bits like all others"},
    {"dim_value", "has no inputs and one element"},
};

void check_row(const Row& row) {
  OpCase one{.name = std::string(row.op), .inputs = row.inputs, .build = row.build, .reference = {}};
  one.f64 = row.has_f64;
  if (!row.letters.empty()) {
    one.inputs[0].values[1] = kNan;
    expect_letters(one, row.letters);
  }
  for (const Empty& empty : row.empty) {
    one.inputs = row.inputs;
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      one.inputs[i].shape = empty.shapes[i];
      one.inputs[i].values.resize(static_cast<size_t>(Shape::of(empty.shapes[i]).numel().value()), 1);
    }
    expect_letters(one, empty.letters);
  }
}

std::set<std::string_view> ops_of(std::span<const Row> rows) {
  std::set<std::string_view> ops;
  for (const Row& row : rows) ops.insert(row.op);
  return ops;
}

TEST(NanAndEmpty, Reductions) {
  for (const Row& row : kReductions) check_row(row);
}
TEST(NanAndEmpty, Moves) {
  for (const Row& row : kMoves) check_row(row);
}
TEST(NanAndEmpty, Layers) {
  for (const Row& row : kLayers) check_row(row);
}
TEST(NanAndEmpty, Exchanges) {
  for (const Row& row : kExchanges) check_row(row);
}

TEST(NanAndEmpty, HasEveryOpWithAKernel) {
  std::set<std::string_view> listed;
  for (const auto rows : {std::span<const Row>(kReductions), std::span<const Row>(kMoves),
                          std::span<const Row>(kLayers), std::span<const Row>(kExchanges)})
    listed.merge(ops_of(rows));
  for (const OpDef* op : all_ops())
    EXPECT_EQ(listed.contains(op->name()) + kElsewhere.contains(op->name()) + is_formula(*op), 1)
        << op->name();
}

}  // namespace
}  // namespace genesis::testing
