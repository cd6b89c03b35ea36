// Ops that create tensors from attributes or from indices.
#include "schema/ops/create.h"

#include <cstring>

#include "backends/cpu/moves/run_moves.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

template <class Pattern>
std::shared_ptr<const void> keep(Pattern pattern) {
  return std::make_shared<const Pattern>(pattern);
}

std::shared_ptr<const void> prepare_full(const KernelQuery& query) {
  const auto op = from_attributes<ops::Full>(query.attributes);
  return keep(pattern_of(op.dtype, op.value));
}

std::shared_ptr<const void> prepare_dim_value(const KernelQuery& query) {
  const auto op = from_attributes<ops::DimValue>(query.attributes);
  return keep(pattern_of(op.dtype, op.dim[0].value()));
}

void run_fill(const KernelContext& c) {
  const TensorView& y = c.output();
  fill_elements(y.data, &c.prepared<std::array<std::byte, 8>>(), static_cast<int64_t>(size_of(y.dtype)),
                y.numel());
}

// y[i] = start + i * step, computed in integers if both are integers, else in double and then rounded.
template <class T>
void arange_elements(T* y, int64_t first, int64_t last, const ops::Arange& op) {
  if (op.start.is_integer() && op.step.is_integer()) {
    const auto start = static_cast<uint64_t>(op.start.as_integer()),
               step = static_cast<uint64_t>(op.step.as_integer());
    for (int64_t i = first; i < last; ++i)
      y[i] = static_cast<T>(static_cast<int64_t>(start + static_cast<uint64_t>(i) * step));
  } else {
    const double start = op.start.as_double(), step = op.step.as_double();
    for (int64_t i = first; i < last; ++i) y[i] = static_cast<T>(start + static_cast<double>(i) * step);
  }
}

void run_arange(const KernelContext& c) {
  const auto& op = c.attributes<ops::Arange>();
  dispatch(op.dtype, [&]<class T>(TypeTag<T>) {
    parallel_rows(c.output().numel(), sizeof(T),
                  [&](int64_t first, int64_t last) { arange_elements(c.output().as<T>(), first, last, op); });
  });
}

int64_t index_at(const TensorView& indices, int64_t i) {
  return dispatch(indices.dtype,
                  [&]<class T>(TypeTag<T>) { return static_cast<int64_t>(indices.as<T>()[i]); });
}

void run_one_hot(const KernelContext& c) {
  const TensorView &indices = c.input(0), &y = c.output();
  const int64_t classes = c.attributes<ops::OneHot>().num_classes;
  const auto element = static_cast<int64_t>(size_of(y.dtype));
  const std::array<std::byte, 8> one = pattern_of(y.dtype, 1);
  parallel_rows(indices.numel(), classes * element, [&](int64_t first, int64_t last) {
    std::memset(y.as<std::byte>() + first * classes * element, 0,
                static_cast<size_t>((last - first) * classes * element));
    for (int64_t i = first; i < last; ++i) {
      const int64_t index = index_at(indices, i);
      if (index < 0 || index >= classes)
        c.fault->report(index, classes);
      else
        std::memcpy(y.as<std::byte>() + (i * classes + index) * element, one.data(),
                    static_cast<size_t>(element));
    }
  });
}

constexpr OpKernel kKernels[] = {
    {"full", {.name = "fill", .run = run_fill, .prepare = prepare_full}},
    {"arange", {.name = "plain", .run = run_arange}},
    {"one_hot", {.name = "plain", .run = run_one_hot}},
    {"dim_value", {.name = "fill", .run = run_fill, .prepare = prepare_dim_value}}};

}  // namespace

std::span<const OpKernel> create_kernels() { return kKernels; }

}  // namespace genesis::cpu
