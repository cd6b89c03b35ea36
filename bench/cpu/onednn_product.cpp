#include "bench/cpu/onednn_product.h"

#include <oneapi/dnnl/dnnl_version.h>
#include <oneapi/dnnl/dnnl.hpp>

namespace genesis::bench {
namespace {

using cpu::GemmProblem;
using dnnl::memory;

memory::data_type type_of(DType type) {
  return type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// Describes [batch, rows, columns], or [rows, columns] if there is one entry.
memory::desc operand(const GemmProblem& p, int64_t rows, int64_t columns, DType type, int64_t ld, bool transposed,
                     int64_t stride) {
  memory::dims sizes = {rows, columns}, strides = transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
  if (p.batch > 1) {
    sizes.insert(sizes.begin(), p.batch);
    strides.insert(strides.begin(), stride);
  }
  return {sizes, type_of(type), strides};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                                      const memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {dnnl::matmul::desc(a, b, c), engine};
#endif
}

}  // namespace

struct OneDnnProduct::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  memory::desc a, b, c;
  dnnl::matmul product;
  std::string implementation;

  explicit State(const GemmProblem& p)
      : a(operand(p, p.m, p.k, p.a, p.lda, p.transpose_a, p.stride_a)),
        b(operand(p, p.k, p.n, p.b, p.ldb, p.transpose_b, p.stride_b)),
        c(operand(p, p.m, p.n, p.c, p.ldc, false, p.stride_c)) {
    const auto described = describe(engine, a, b, c);
    implementation = described.impl_info_str();
    product = dnnl::matmul(described);
  }
};

OneDnnProduct::OneDnnProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
OneDnnProduct::~OneDnnProduct() = default;

std::unique_ptr<const OneDnnProduct> OneDnnProduct::create(const GemmProblem& problem) {
  try {
    return std::unique_ptr<const OneDnnProduct>(new OneDnnProduct(std::make_unique<State>(problem)));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

void OneDnnProduct::run(const void* a, const void* b, void* c) const {
  dnnl::stream stream(state_->engine);
  state_->product.execute(stream, {{DNNL_ARG_SRC, memory(state_->a, state_->engine, const_cast<void*>(a))},
                                   {DNNL_ARG_WEIGHTS, memory(state_->b, state_->engine, const_cast<void*>(b))},
                                   {DNNL_ARG_DST, memory(state_->c, state_->engine, c)}});
  stream.wait();
}

const std::string& OneDnnProduct::implementation() const { return state_->implementation; }

}  // namespace genesis::bench
