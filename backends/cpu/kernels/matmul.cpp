// matmul and linear on the CPU: both describe their products to Gemm once, when a plan is made. Batch axes
// that lie evenly in both operands become the product's own batch; what is left is a list of offsets.
#include <algorithm>
#include <vector>

#include "backends/cpu/gemm.h"
#include "backends/kernel.h"
#include "schema/ops/matmul.h"

namespace genesis::cpu {
namespace {

struct Offsets {
  int64_t a, b, c;  // bytes
};

struct Products {
  std::shared_ptr<const Gemm> gemm;
  std::vector<Offsets> offsets;  // one run of `gemm` each; empty when the result is
};

// One axis of the batch: its size, and what a step along it moves in each operand, in elements.
struct BatchAxis {
  int64_t size, a, b, c;
};

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

// Leading axes of the result, with stride 0 where an operand is broadcast; neighbours that can be walked with
// one step are one axis.
std::vector<BatchAxis> batch_axes(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                                  const std::vector<int64_t>& c) {
  const auto stride = [&](const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                          size_t axis) {
    if (axis + sizes.size() < c.size()) return int64_t{0};
    const size_t at = axis + sizes.size() - c.size();
    return sizes[at] == 1 ? 0 : strides[at];
  };
  const auto strides_a = dense_strides(a), strides_b = dense_strides(b), strides_c = dense_strides(c);
  std::vector<BatchAxis> axes;
  for (size_t i = 0; i + 2 < c.size(); ++i) {
    const BatchAxis axis{c[i], stride(a, strides_a, i), stride(b, strides_b, i), strides_c[i]};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().a == axis.a * axis.size && axes.back().b == axis.b * axis.size)
      axes.back() = {axes.back().size * axis.size, axis.a, axis.b, axis.c};
    else
      axes.push_back(axis);
  }
  return axes;
}

// An innermost axis along which b stays and a and c go on by whole matrices only adds rows (query heads that
// share a key head).
void fold_rows(GemmProblem& problem, std::vector<BatchAxis>& axes) {
  if (axes.empty() || problem.transpose_a) return;
  const BatchAxis& axis = axes.back();
  if (axis.b != 0 || axis.a != problem.m * problem.lda || axis.c != problem.m * problem.ldc) return;
  problem.m *= axis.size;
  axes.pop_back();
}

std::vector<Offsets> all_offsets(const std::vector<BatchAxis>& axes, int64_t element) {
  std::vector<Offsets> offsets = {{0, 0, 0}};
  for (const BatchAxis& axis : axes) {
    std::vector<Offsets> longer;
    for (const Offsets& start : offsets)
      for (int64_t i = 0; i < axis.size; ++i)
        longer.push_back(
            {start.a + i * axis.a * element, start.b + i * axis.b * element, start.c + i * axis.c * element});
    offsets = std::move(longer);
  }
  return offsets;
}

std::shared_ptr<const void> prepare_matmul(const KernelQuery& query) {
  const auto op = from_attributes<ops::Matmul>(query.attributes);
  const auto a = query.inputs[0].shape.sizes(), b = query.inputs[1].shape.sizes(),
             c = query.outputs[0].shape.sizes();
  auto products = std::make_shared<Products>();
  if (query.outputs[0].numel() == 0) return products;
  GemmProblem problem;
  problem.a = problem.b = problem.c = query.inputs[0].dtype;
  problem.m = c[c.size() - 2];
  problem.n = c.back();
  problem.k = op.transpose_a ? a[a.size() - 2] : a.back();
  problem.lda = a.back();
  problem.ldb = b.back();
  problem.ldc = c.back();
  problem.transpose_a = op.transpose_a;
  problem.transpose_b = op.transpose_b;
  std::vector<BatchAxis> axes = batch_axes(a, b, c);
  fold_rows(problem, axes);
  if (!axes.empty()) {
    const auto longest =
        std::max_element(axes.begin(), axes.end(), [](auto& x, auto& y) { return x.size < y.size; });
    problem.batch = longest->size;
    problem.stride_a = longest->a;
    problem.stride_b = longest->b;
    problem.stride_c = longest->c;
    axes.erase(longest);
  }
  products->gemm = Gemm::create(problem);
  products->offsets = all_offsets(axes, static_cast<int64_t>(size_of(problem.a)));
  return products;
}

std::shared_ptr<const void> prepare_linear(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  auto products = std::make_shared<Products>();
  if (query.outputs[0].numel() == 0) return products;
  GemmProblem problem;
  problem.a = problem.b = problem.c = problem.bias = query.inputs[0].dtype;
  problem.n = query.inputs[1].shape[0].value();
  problem.k = query.inputs[1].shape[1].value();
  problem.m = query.outputs[0].numel() / problem.n;
  problem.lda = problem.ldb = problem.k;
  problem.ldc = problem.n;
  problem.transpose_b = true;
  problem.has_bias = query.inputs.size() > 2;
  problem.activation = static_cast<cpu::Activation>(op.activation);
  static_assert(static_cast<int>(cpu::Activation::kSilu) == static_cast<int>(genesis::Activation::kSilu));
  products->gemm = Gemm::create(problem);
  products->offsets = {{0, 0, 0}};
  return products;
}

template <std::shared_ptr<const void> (*kPrepare)(const KernelQuery&)>
int64_t scratch_bytes(const KernelQuery& query) {
  const auto prepared = kPrepare(query);
  const auto& products = *static_cast<const Products*>(prepared.get());
  return products.gemm ? products.gemm->scratch_bytes() : 0;
}

void run(const KernelContext& c) {
  const auto& products = c.prepared<Products>();
  const void* bias = c.num_inputs() > 2 ? c.input(2).data : nullptr;
  for (const Offsets& at : products.offsets)
    products.gemm->run(c.input(0).as<std::byte>() + at.a, c.input(1).as<std::byte>() + at.b,
                       c.output().as<std::byte>() + at.c, bias, c.scratch);
}

constexpr KernelImpl kMatmul[] = {
    {.name = "gemm", .run = run, .scratch_bytes = scratch_bytes<prepare_matmul>, .prepare = prepare_matmul}};
constexpr KernelImpl kLinear[] = {
    {.name = "gemm", .run = run, .scratch_bytes = scratch_bytes<prepare_linear>, .prepare = prepare_linear}};
constexpr OpKernels kKernels[] = {{"matmul", kMatmul}, {"linear", kLinear}};

}  // namespace

std::span<const OpKernels> matmul_kernels() { return kKernels; }

}  // namespace genesis::cpu
