#include "backends/cuda/gemm/few_rows/row_implementations.h"

#include "backends/common/decomposed_products.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/gemm/gemm_implementations.h"
#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/chips.h"

namespace genesis::cuda {
namespace {

constexpr auto kMaxLayers = static_cast<size_t>(RowProducts::kMaxLayers);

// --- products of gemm_list.h

std::string why_no_rows(const GemmProblem& p) {
  if (p.batch != 1) return "a batch of products";
  if (p.m < 1 || p.n < 1 || p.k < 1) return "nothing to compute";
  if (p.transpose_a || !p.transpose_b || p.ldb != p.k) return "B is not stored as weights [n, k]";
  if (p.in != DType::f32 && !is_low_precision(p.in)) return "the operands are " + std::string(name_of(p.in));
  if (p.out != p.in && p.out != DType::f32) return "the result is " + std::string(name_of(p.out));
  return "";
}

// Describes a product that why_no_rows() accepts.
RowProducts rows_of(const GemmProblem& p) {
  RowProducts rows{
      .dtype = p.in, .m = p.m, .k = p.k, .lda = p.lda, .wide = p.in != p.out, .activation = p.activation};
  rows.layer[0].n = p.n, rows.layer[0].ldc = p.ldc;
  return rows;
}

// Runs `start`, or start_gemv() where that returns false, or the plain kernel if the buffers are not aligned.
class RowsGemm final : public Gemm {
 public:
  RowsGemm(const GemmProblem& problem, StartRows start)
      : problem_(problem), rows_(rows_of(problem)), start_(start) {}

  void run(const GemmData& d) const override {
    if (!starts_at(16, d)) return run_plain_gemm(problem_, d);
    RowProducts p = rows_;
    p.independent = d.independent;
    p.x = d.a;
    p.layer[0].weight = d.b;
    p.layer[0].bias = problem_.has_bias ? d.bias : nullptr;
    p.layer[0].addend = addend_of(problem_, d);
    p.layer[0].y = d.c;
    Launch launch;
    launch.stream = d.stream, launch.can_use_pdl = d.can_use_pdl, launch.early = d.early;
    if (!start_(p, launch)) start_gemv(p, launch);
  }

 private:
  GemmProblem problem_;
  RowProducts rows_;
  StartRows start_;
};

// --- nodes of linear

// Describes a node by its sizes and attributes, without data; of more weights than one launch takes, the first ones.
RowProducts rows_of(const KernelQuery& query, const ops::Linear& op) {
  const TensorType& x = query.inputs[0];
  const int64_t k = x.shape[x.shape.rank() - 1].value();
  RowProducts p{.dtype = x.dtype,
                .format = op.weight_format,
                .m = rows_of_x(x.shape),
                .k = k,
                .lda = k,
                .layers = static_cast<int>(std::min(static_cast<size_t>(op.weights), kMaxLayers)),
                .swiglu = op.epilogue == ops::LinearEpilogue::kSwiglu,
                .wide = query.outputs[0].dtype != x.dtype,
                .has_norm = op.has_norm(),
                .eps = static_cast<float>(op.eps),
                .activation = op.activation};
  for (int i = 0; i < p.layers; ++i)
    p.layer[i].n = p.layer[i].ldc = query.inputs[op.first_weight() + static_cast<size_t>(i)].shape[0].value();
  return p;
}

// A prepared node. `one` or `parts` runs it if no kernel can: one product, or the decomposition.
struct Prepared {
  ops::Linear op;
  RowProducts rows;
  bool has_bias = false;
  std::shared_ptr<const Gemm> one;
  std::unique_ptr<DecomposedLinear> parts;
};

// Returns whether the kernel may read ahead all that it wants to.
bool reads_ahead(const KernelContext& c, const Prepared& p, const RowKernel& kernel) {
  const bool all = kernel.reads_biases_early;
  const size_t begin = all ? 1 : p.op.first_weight(),
               end = p.op.first_bias() + (all && p.has_bias ? static_cast<size_t>(p.op.weights) : 0);
  for (size_t i = begin; i < end; ++i)
    if (!is_independent(c, static_cast<int>(i))) return false;
  return true;
}

// Returns the products of a launch: those of the weights from `first` on.
RowProducts rows_of(const KernelContext& c, const Prepared& p, size_t first) {
  RowProducts rows = p.rows;
  const auto weights = static_cast<size_t>(p.op.weights);
  rows.x = c.input(0).data;
  rows.norm = rows.has_norm ? c.input(1).data : nullptr;
  rows.layers = static_cast<int>(std::min(kMaxLayers, weights - first));
  for (size_t i = first; i < std::min(weights, first + kMaxLayers); ++i) {
    const TensorView& weight = c.inputs[p.op.first_weight() + i];
    rows.layer[i - first] = {.weight = weight.data,
                             .scales = p.op.is_quantized() ? c.inputs[p.op.first_scale() + i].data : nullptr,
                             .bias = p.has_bias ? c.inputs[p.op.first_bias() + i].data : nullptr,
                             .addend = p.op.has_addend ? c.inputs.back().data : nullptr,
                             .y = c.outputs[rows.swiglu ? 0 : i].data,
                             .n = weight.dim(0),
                             .ldc = weight.dim(0)};
  }
  return rows;
}

bool try_to_start(const KernelContext& c, const Prepared& p, const RowKernel& kernel) {
  if (!kernel.is_quantized && !aligned_to_packs(c)) return false;  // a view may start anywhere
  const bool independent = reads_ahead(c, p, kernel);
  for (size_t first = 0; first < static_cast<size_t>(p.op.weights); first += kMaxLayers) {
    RowProducts rows = rows_of(c, p, first);
    rows.independent = independent;
    if (!kernel.start(rows, launch_of(c)) && !kernel.otherwise(rows, launch_of(c))) return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> why_no_row_products(const KernelQuery& query, const RowKernel& kernel) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const TensorType& x = query.inputs[0];
  if (op.epilogue == ops::LinearEpilogue::kWithSwiglu) return "gate and up are one weight";
  if (op.is_quantized() && !kernel.is_quantized) return "quantized weights";
  if (!op.is_quantized() && kernel.is_quantized) return "weights as they are";
  if (x.dtype != DType::f32 && !is_low_precision(x.dtype)) return "x is neither f32 nor bf16 or f16";
  if (op.has_norm() && query.inputs[1].dtype != x.dtype) return "a norm of another dtype";
  if (op.weights > RowProducts::kMaxLayers && !kernel.has_launches) return "more weights than a start takes";
  if (x.numel() == 0) return "nothing to compute";
  for (size_t i = 0; i < static_cast<size_t>(op.weights); ++i)
    if (query.inputs[op.first_weight() + i].numel() == 0) return "nothing to compute";
  std::string why = kernel.why_not(rows_of(query, op));
  return why.empty() ? std::nullopt : std::optional(std::move(why));
}

int64_t row_products_scratch(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.is_quantized() || op.is_one_product()) return 0;
  return DecomposedLinear(kernels_for, false, query).scratch_bytes();
}

std::shared_ptr<const void> prepare_row_products(const KernelQuery& query) {
  auto made = std::make_shared<Prepared>();
  made->op = from_attributes<ops::Linear>(query.attributes);
  made->rows = rows_of(query, made->op);
  made->has_bias = made->op.has_bias(query.inputs.size());
  if (made->op.is_quantized()) return made;  // quantized_gemv always starts
  if (made->op.is_one_product()) {
    GemmProblem problem{.in = query.inputs[0].dtype, .out = query.outputs[0].dtype};
    describe_linear(query, problem);
    made->one = Gemm::create_plain(problem);
  } else {
    made->parts = std::make_unique<DecomposedLinear>(kernels_for, true, query);
  }
  return made;
}

void run_row_products(const KernelContext& c, const RowKernel& kernel) {
  const auto& p = c.prepared<Prepared>();
  if (try_to_start(c, p, kernel)) return;
  if (p.parts) return run_decomposed(*p.parts, c);
  p.one->run({.a = c.input(0).data,
              .b = c.input(1).data,
              .c = c.output().data,
              .bias = p.has_bias ? c.input(2).data : nullptr,
              .addend = p.op.has_addend ? c.inputs.back().data : nullptr,
              .stream = launch_of(c).stream});
}

// --- the rows of gemm_list.cpp

std::string gemv_declines(const GemmProblem& problem) {
  if (std::string why = why_no_rows(problem); !why.empty()) return why;
  return why_no_gemv(rows_of(problem));
}

std::shared_ptr<const Gemm> create_gemv(const GemmProblem& problem) {
  return std::make_shared<RowsGemm>(problem, start_gemv);
}

std::string prefetched_gemv_declines(const GemmProblem& problem) {
  if (std::string why = why_no_rows(problem); !why.empty()) return why;
  if (std::string why = why_no_prefetched_gemv(rows_of(problem)); !why.empty()) return why;
  return why_no_early_starts_here().value_or("");
}

std::shared_ptr<const Gemm> create_prefetched_gemv(const GemmProblem& problem) {
  return std::make_shared<RowsGemm>(problem, start_prefetched_gemv);
}

// --- the rows of linear's kernel table

namespace {

// The list of matrix products has the GEMVs of one product.
template <auto kWhyNot>
std::string why_no_several(const RowProducts& p) {
  return p.layers < 2 && !p.has_norm ? "one product" : kWhyNot(p);
}

constexpr RowKernel kGemv = {.why_not = why_no_several<why_no_gemv>,
                             .start = start_gemv,
                             .otherwise = start_gemv,
                             .has_launches = true};
constexpr RowKernel kPrefetchedGemv = {.why_not = why_no_several<why_no_prefetched_gemv>,
                                       .start = start_prefetched_gemv,
                                       .otherwise = start_gemv,
                                       .has_launches = true};
constexpr RowKernel kQuantizedGemv = {.why_not = why_no_quantized_gemv,
                                      .start = start_quantized_gemv,
                                      .otherwise = start_quantized_gemv,
                                      .is_quantized = true};
constexpr RowKernel kStreamedGemv = {.why_not = why_no_streamed_gemv,
                                     .start = start_streamed_gemv,
                                     .otherwise = start_quantized_gemv,
                                     .is_quantized = true};
constexpr RowKernel kSkinnyGemm = {.why_not = why_no_skinny_gemm,
                                   .start = start_skinny_gemm,
                                   .otherwise = start_skinny_gemm,
                                   .reads_biases_early = true};

}  // namespace

KernelImpl linear_gemv_implementation() { return row_implementation<kGemv>("gemv"); }
KernelImpl linear_gemv_prefetch_implementation() {
  return row_implementation<kPrefetchedGemv>("gemv_prefetch", why_no_early_starts_here);
}
KernelImpl linear_quantized_gemv_implementation() {
  return row_implementation<kQuantizedGemv>("quantized_gemv");
}
KernelImpl linear_quantized_gemv_stream_implementation() {
  return row_implementation<kStreamedGemv>("quantized_gemv_stream", why_no_early_starts_here);
}
KernelImpl linear_skinny_gemm_implementation() { return row_implementation<kSkinnyGemm>("skinny_gemm"); }

}  // namespace genesis::cuda
