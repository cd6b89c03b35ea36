// The implementations of experts share this: the addresses and sizes of a call, the activation of an expert, and the sum of a row's
// experts. experts.cu has the rows of the table.
#pragma once

#include <optional>
#include <string>

#include "backends/cuda/device/row_groups.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "schema/ops/nn/grouped_matmul.h"

namespace genesis::cuda {

#ifdef __CUDACC__

// Rows up to which each reads the weights of down for itself: so few seldom share an expert.
inline constexpr int64_t kFewRows = 4;
inline constexpr int64_t kMaxPairs = 256;  // more of them take the products of grouped_matmul
inline constexpr int kWeighThreads = 256;

struct ExpertCall {
  Groups groups;
  const void *x, *gate, *up, *down, *gate_scales, *up_scales, *down_scales;
  const void *gate_biases, *up_biases, *down_biases;  // null: there are none
  ExpertActivation activation;
  double limit, slope;
  const int64_t *rows, *places;
  const float* factors;
  const void* addend;  // may be null
  void *between, *results, *y;
  int64_t x_rows, y_rows, k, n, hidden;
  int chosen;
  FaultReport fault;
};

// Returns the activation of a gate and an up value of type T, not yet rounded to T. NaN stays.
template <class T>
__device__ __forceinline__ wide_t<T> activated(const ExpertCall& call, wide_t<T> gate, wide_t<T> up) {
  using W = wide_t<T>;
  if (call.activation == ExpertActivation::kSwiglu) return gated<T>(gate, up);
  const W limit = static_cast<W>(call.limit);
  const W g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up;
  return g * sigmoid<T>(static_cast<W>(call.slope) * g) * (u + W(1));
}

// Returns the place of choice `at`; -1 if it cannot be, which is reported.
__device__ __forceinline__ int64_t place_of(const ExpertCall& call, int64_t at) {
  const int64_t place = call.places[at], pairs = call.groups.rows;
  if (place >= 0 && place < pairs) return place;
  call.fault(place, pairs);
  return -1;
}

// Adds up the products of the experts of a row, in the order in which they were chosen.
template <class T, class Products>
__device__ __forceinline__ void weigh(const ExpertCall& call, int64_t row, int64_t column,
                                      const Products& product) {
  using W = wide_t<T>;
  W sum = 0;
  for (int j = 0; j < call.chosen; ++j)
    sum = fma(static_cast<W>(call.factors[row * call.chosen + j]), product(j), sum);
  const int64_t at = row * call.hidden + column;
  if (call.addend) sum += widen(static_cast<const T*>(call.addend)[at]);
  static_cast<T*>(call.y)[at] = narrow<T>(sum);
}

// Adds up the products of all pairs: a thread has an element of y.
template <class T>
__global__ void __launch_bounds__(kWeighThreads) weigh_results(const __grid_constant__ ExpertCall call) {
  begin_in_order();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWeighThreads + threadIdx.x;
  if (i >= call.y_rows * call.hidden) return;
  const int64_t row = i / call.hidden, column = i % call.hidden;
  const auto* results = static_cast<const wide_t<T>*>(call.results);
  weigh<T>(call, row, column, [&](int j) {
    const int64_t place = place_of(call, row * call.chosen + j);
    const bool has_group = place >= call.groups.first(0) && place < call.groups.first(call.groups.count);
    return has_group ? results[place * call.hidden + column] : wide_t<T>(0);
  });
}

// --- of the host

inline int64_t last_size(const TensorType& type) { return type.shape[type.shape.rank() - 1].value(); }

// Scratch memory holds the numbers between the products, then, unless rows are few, the results of all pairs.
inline int64_t between_bytes(int64_t pairs, int64_t n, DType dtype) {
  return (pairs * n * static_cast<int64_t>(size_of(dtype)) + 63) / 64 * 64;
}
inline int64_t experts_scratch(const KernelQuery& query) {
  using Op = ops::Experts;
  const TensorType &x = query.inputs[Op::kX], &places = query.inputs[Op::kPlaces];
  const int64_t pairs = places.numel();
  const auto wide = static_cast<int64_t>(size_of(wide_dtype(x.dtype)));
  return between_bytes(pairs, query.inputs[Op::kGate].shape[1].value(), x.dtype) +
         pairs * last_size(query.outputs[0]) * wide;
}

inline int64_t rows_of(const TensorView& x) {
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank; ++axis) rows *= x.dim(axis);
  return rows;
}

inline ExpertCall expert_call_of(const KernelContext& c) {
  using Op = ops::Experts;
  const auto& op = c.attributes<Op>();
  const TensorView &x = c.input(Op::kX), &places = c.input(Op::kPlaces), &y = c.output();
  const bool plain = op.format == WeightFormat::kPlain;
  ExpertCall call{};
  call.groups = groups_of(c.input(Op::kOffsets), places.numel());
  call.x = x.data, call.gate = c.input(Op::kGate).data, call.up = c.input(Op::kUp).data;
  call.down = c.input(Op::kDown).data;
  if (!plain) call.gate_scales = c.input(op.scales()).data, call.up_scales = c.input(op.scales() + 1).data;
  if (op.down_format != WeightFormat::kPlain) call.down_scales = c.input(op.down_scales()).data;
  if (op.has_biases) {
    call.gate_biases = c.input(op.biases()).data, call.up_biases = c.input(op.biases() + 1).data;
    call.down_biases = c.input(op.biases() + 2).data;
  }
  call.activation = op.activation, call.limit = op.limit, call.slope = op.slope;
  call.rows = c.input(Op::kRows).as<const int64_t>(), call.places = places.as<const int64_t>();
  call.factors = c.input(Op::kFactors).as<const float>();
  if (op.has_addend) call.addend = c.input(Op::kAddend).data;
  call.k = x.dim(-1), call.n = c.input(Op::kGate).dim(1), call.hidden = y.dim(-1);
  call.chosen = static_cast<int>(places.dim(-1));
  call.x_rows = rows_of(x), call.y_rows = rows_of(y);
  call.between = c.scratch;
  call.results = c.scratch + between_bytes(places.numel(), call.n, x.dtype);
  call.y = y.data;
  call.fault = launch_of(c).fault;
  return call;
}

// Runs experts of any sizes.
void run_expert_rows(const KernelContext& c);

// The implementation in the folder expert_tiles: rows of decoding in 16 bits without quantized weights, by tensor cores. It leaves
// operands that begin at no multiple of 16 bytes to run_expert_rows().
std::optional<std::string> decline_expert_tiles(const KernelQuery& query);
void run_expert_tiles(const KernelContext& c);

#endif

}  // namespace genesis::cuda
