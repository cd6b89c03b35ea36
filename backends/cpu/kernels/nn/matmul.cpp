// matmul and linear on the CPU. A plain product is described to Gemm once, when a plan is made: batch axes that lie evenly
// in both operands become the product's own batch; what is left is a list of offsets. Few rows of x meet several
// weights in one parallel region, so that a decoding step starts and joins its threads once for q, k and v, and once
// for gate and up. All else is decomposed.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/common/matmul_problem.h"
#include "backends/common/decomposed_products.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/gemm/gemm_ways.h"
#include "backends/cpu/gemm/gemv/gemm_dots.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/kernels/nn/quantized_linear.h"
#include "backends/cpu/kernels/nn/swiglu.h"
#include "backends/cpu/quantized/quantized_rows.h"

namespace genesis::cpu {
namespace {

// --- plain products

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<BatchOffsets> offsets;  // one run of `gemm` each; empty when the result is
  bool has_bias = false, has_addend = false;
};

struct Described {
  GemmProblem problem;
  std::vector<BatchOffsets> offsets;
};

template <class Op>
Described describe(const KernelQuery& query) {
  Described made;
  made.problem.a = made.problem.b = made.problem.bias = query.inputs[0].dtype;
  made.problem.c = query.outputs[0].dtype;
  if constexpr (std::is_same_v<Op, ops::Matmul>)
    made.offsets = describe_matmul(query, made.problem);
  else
    made.offsets = describe_linear(query, made.problem);
  return made;
}

template <class Op>
std::shared_ptr<const void> prepare(const KernelQuery& query) {
  auto products = std::make_shared<Products>();
  Described made = describe<Op>(query);
  products->offsets = std::move(made.offsets);
  products->has_bias = made.problem.has_bias;
  products->has_addend = made.problem.accumulate;
  if (!products->offsets.empty()) products->gemm = Gemm::create(made.problem, query.disabled);
  return products;
}

template <class Op>
KernelChoice choose(const KernelQuery& query) {
  const Described made = describe<Op>(query);
  return made.offsets.empty() ? KernelChoice{} : choose_gemm(made.problem, query.disabled);
}

template <class Op>
int64_t scratch_bytes(const KernelQuery& query) {
  const auto prepared = prepare<Op>(query);
  const auto& products = *static_cast<const Products*>(prepared.get());
  return products.gemm ? products.gemm->scratch_bytes() : 0;
}

void run(const KernelContext& c) {
  const auto& products = c.prepared<Products>();
  const void* bias = products.has_bias ? c.input(2).data : nullptr;
  const auto* addend = products.has_addend ? c.inputs.back().as<const std::byte>() : nullptr;
  for (const BatchOffsets& at : products.offsets)
    products.gemm->run(c.input(0).as<std::byte>() + at.a, c.input(1).as<std::byte>() + at.b,
                       c.output().as<std::byte>() + at.c, bias, c.scratch, addend ? addend + at.c : nullptr);
}

template <class Op>
constexpr KernelImpl kGemm = {.name = "gemm",
                              .run = run,
                              .can_run = decline_all_but_plain<Op>,
                              .scratch_bytes = scratch_bytes<Op>,
                              .prepare = prepare<Op>,
                              .choose_inner = choose<Op>};

// --- few rows of x and several weights, or quantized ones

struct SeveralWeights {
  Dots dots;
  ops::Linear op;
  bool has_bias = false;

  int64_t operand_bytes() const {
    return round_up(op.weights * static_cast<int64_t>(sizeof(Dots::Operands)), kAlignment);
  }
};

std::vector<GemmProblem> problems_of(const KernelQuery& query, const ops::Linear& op) {
  std::vector<GemmProblem> problems(static_cast<size_t>(op.weights));
  for (size_t i = 0; i < problems.size(); ++i) {
    problems[i].a = problems[i].b = problems[i].c = problems[i].bias = query.inputs[0].dtype;
    describe_weight(query, op, i, problems[i]);
    problems[i].b_format = op.weight_format;
    problems[i].accumulate = op.has_addend;
    if (op.is_quantized()) problems[i].b = query.inputs[op.first_weight() + i].dtype;
  }
  return problems;
}

// With so many rows of x a product takes as long as reading its weights. With more rows it is faster to run the layers as products of
// their own, beside each other.
constexpr int64_t kMaxSharedRows = 16;

std::optional<std::string> gemv_decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.weights < 2 || op.has_norm()) return "not several weights, or a norm ahead of them";
  if (op.is_quantized()) return "quantized weights";
  for (const GemmProblem& problem : problems_of(query, op)) {
    if (problem.m > kMaxSharedRows) return fmt::format("more than {} rows", kMaxSharedRows);
    if (std::string why = decline_gemv(problem); !why.empty()) return why;
  }
  return std::nullopt;
}

// With more rows of x it costs little, beside the products, to dequantize the weights first.
constexpr int64_t kMaxQuantizedRows = 64;

std::optional<std::string> quantized_gemv_decline(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (!op.is_quantized()) return "weights as they are";
  if (op.has_norm()) return "a norm ahead of the weights";
  if (query.inputs[0].dtype == DType::f64) return "x is f64";
  if (rows_of_x(query.inputs[0].shape) > kMaxQuantizedRows)
    return fmt::format("more than {} rows", kMaxQuantizedRows);
  if (query.inputs[0].numel() == 0 || query.outputs[0].numel() == 0) return "no elements";
  return std::nullopt;
}

std::shared_ptr<const SeveralWeights> gemv_of(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const bool gated = op.epilogue == ops::LinearEpilogue::kSwiglu;
  const DType x = query.inputs[0].dtype;
  const GemvKernel kernel =
      op.is_quantized() ? quantized_rows_kernel(x, op.weight_format) : dot_rows_kernel(x, x);
  return std::make_shared<SeveralWeights>(
      SeveralWeights{Dots(problems_of(query, op), gated ? swiglu_function(x) : nullptr, kernel), op,
                     op.has_bias(query.inputs.size())});
}

// Scratch: the table of operands that Dots is given, then the scratch of Dots itself.
int64_t gemv_scratch(const KernelQuery& query) {
  const auto made = gemv_of(query);
  return (CheckedSize(made->operand_bytes()) + made->dots.scratch_bytes()).value();
}

void run_gemv(const KernelContext& c) {
  const auto& p = c.prepared<SeveralWeights>();
  const auto weights = static_cast<size_t>(p.op.weights);
  auto* operands = reinterpret_cast<Dots::Operands*>(c.scratch);
  for (size_t i = 0; i < weights; ++i)
    operands[i] = {
        c.inputs[p.op.first_weight() + i].data, p.has_bias ? c.inputs[p.op.first_bias() + i].data : nullptr,
        c.outputs[c.outputs.size() == weights ? i : 0].data, p.op.has_addend ? c.inputs.back().data : nullptr,
        p.op.is_quantized() ? c.inputs[p.op.first_scale() + i].data : nullptr};
  p.dots.run(c.input(0).data, {operands, weights}, c.scratch + p.operand_bytes());
}

constexpr KernelImpl kGemv = {
    .name = "gemv",
    .run = run_gemv,
    .can_run = gemv_decline,
    .scratch_bytes = gemv_scratch,
    .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> { return gemv_of(query); }};

constexpr KernelImpl kQuantizedGemv = {.name = "quantized_gemv",
                                       .run = run_gemv,
                                       .can_run = quantized_gemv_decline,
                                       .scratch_bytes = gemv_scratch,
                                       .prepare = kGemv.prepare};

constexpr KernelImpl kQuantizedPanels = {.name = "quantized_panels",
                                         .run = run_quantized_panels,
                                         .can_run = quantized_panels_decline,
                                         .scratch_bytes = quantized_panels_scratch,
                                         .prepare = prepare_quantized_panels};

// The last is the reference, for nodes that are one product.
constexpr OpKernel kKernels[] = {{"matmul", kDecomposed<ops::Matmul, DecomposedMatmul, kernels_for>},
                                 {"matmul", kGemm<ops::Matmul>},
                                 {"linear", kGemv},
                                 {"linear", kQuantizedPanels},
                                 {"linear", kQuantizedGemv},
                                 {"linear", kDecomposed<ops::Linear, DecomposedLinear, kernels_for>},
                                 {"linear", kDequantized<kernels_for>},
                                 {"linear", kGemm<ops::Linear>}};

}  // namespace

std::span<const OpKernel> matmul_kernels() { return kKernels; }

}  // namespace genesis::cpu
