// recurrent and its gradient: a launch for each step forward, two backward. A warp sums the products of one element of the state for
// some rows of the batch, and its lanes compute the cells.
#include "schema/ops/nn/recurrent.h"

#include "backends/common/recurrent_cell.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kWarps = 4, kRows = 8, kSumWarps = 8;

// Operands and results of one step. The states before are read from h, and written to next: other blocks still read h.
template <class T>
struct Step {
  RecurrentShape s;
  int64_t t;
  const T *x, *weight, *h, *c_before, *bias;
  const int64_t* lengths;
  T *y, *next, *c, *gates;  // gates may be null

  __device__ bool is_over(int64_t b) const { return t >= s.length(lengths, b); }
  __device__ int64_t at(int64_t b) const { return t * s.batch + b; }

  __device__ void finish(int64_t b, int64_t j, const T* p) const {
    const int64_t n = s.hidden, state = b * n + j;
    T* row = gates ? gates + at(b) * n * s.saved() + j : nullptr;
    const T* sums = x + at(b) * n * s.gates + j;
    if (is_over(b)) {
      y[at(b) * n + j] = 0;
      next[state] = h[state];
      if (c) c[state] = c_before[state];
      for (int64_t i = 0; row && i < s.saved(); ++i) row[i * n] = 0;
      return;
    }
    T values[5] = {}, shown = 0;
    if (s.cell == RecurrentCell::kLstm) {
      const auto v = lstm_values(sums[0] + p[0], sums[n] + p[1], sums[2 * n] + p[2], sums[3 * n] + p[3],
                                 c_before[state]);
      c[state] = v.c;
      shown = v.o * hyperbolic(v.c);
      values[0] = v.i, values[1] = v.f, values[2] = v.g, values[3] = v.o, values[4] = v.c;
    } else if (s.cell == RecurrentCell::kGru) {
      const auto v = gru_values(sums[0] + p[0], sums[n] + p[1], sums[2 * n], p[2] + bias[j]);
      shown = gru_state(v, h[state]);
      values[0] = v.r, values[1] = v.z, values[2] = v.n, values[3] = v.p;
    } else {
      const T sum = sums[0] + p[0];
      shown = s.cell == RecurrentCell::kTanh ? hyperbolic(sum) : sum < T(0) ? T(0) : sum;
      values[0] = shown;
    }
    y[at(b) * n + j] = next[state] = shown;
    for (int64_t i = 0; row && i < s.saved(); ++i) row[i * n] = values[i];
  }
};

template <class T, int kGates>
__global__ void __launch_bounds__(kWarps* kLanes) forward(Step<T> step) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t n = step.s.hidden, across = (n + kWarps - 1) / kWarps;
  const int64_t j = blockIdx.x % across * kWarps + warp, first = blockIdx.x / across * kRows;
  if (j >= n) return;
  T sums[kGates][kRows] = {};
  for (int64_t k = lane; k < n; k += kLanes) {
    T h[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) h[r] = first + r < step.s.batch ? step.h[(first + r) * n + k] : T(0);
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      const T w = step.weight[(g * n + j) * n + k];
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[g][r] += w * h[r];
    }
  }
  T own[kGates] = {};  // lane r keeps the sums of row r
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      const T sum = warp_sum(sums[g][r]);
      if (lane == r) own[g] = sum;
    }
  if (lane < kRows && first + lane < step.s.batch) step.finish(first + lane, j, own);
}

template <class T>
void copy(const KernelContext& c, const TensorView& from, T* to) {
  const T* x = from.as<const T>();
  for_each(c, from.numel(), [x, to] __device__(int64_t i) { to[i] = x[i]; });
}

template <class T>
void start_step(const KernelContext& c, const Step<T>& step) {
  const RecurrentShape& s = step.s;
  const auto kernel = s.gates == 4 ? forward<T, 4> : s.gates == 3 ? forward<T, 3> : forward<T, 1>;
  start(c, kernel, blocks_for(s.hidden, kWarps) * blocks_for(s.batch, kRows), kWarps * kLanes, 0, step);
}

template <class T>
void start_forward(const KernelContext& c) {
  const auto& op = c.attributes<ops::Recurrent>();
  Step<T> step{
      RecurrentShape::of(op.cell, op.reverse, c.input(0).dim(0), c.input(0).dim(1), c.input(1).dim(1))};
  const RecurrentShape& s = step.s;
  const bool is_lstm = s.cell == RecurrentCell::kLstm;
  const int states = s.gates > 1 ? 4 : 3;
  if (s.time == 0) {
    copy(c, c.input(2), c.output(1).as<T>());
    if (is_lstm) copy(c, c.input(3), c.output(2).as<T>());
  }
  step.x = c.input(0).as<const T>(), step.weight = c.input(1).as<const T>();
  if (s.cell == RecurrentCell::kGru) step.bias = c.input(3).as<const T>();
  if (c.num_inputs() > states) step.lengths = c.input(states).as<const int64_t>();
  step.y = c.output(0).as<T>();
  if (is_lstm) step.c = c.output(2).as<T>();
  if (op.with_gates) step.gates = c.outputs.back().as<T>();
  T* states_between = reinterpret_cast<T*>(c.scratch);
  for (int64_t i = 0; i < s.time; ++i) {
    step.t = s.step(i);
    step.h = i == 0 ? c.input(2).as<const T>() : step.next;
    step.c_before = i == 0 && is_lstm ? c.input(3).as<const T>() : step.c;
    step.next = i == s.time - 1 ? c.output(1).as<T>() : states_between + i % 2 * s.batch * s.hidden;
    start_step(c, step);
  }
}

// Operands and results of one step of the gradient.
template <class T>
struct BackStep {
  RecurrentShape s;
  int64_t t;
  const T *weight, *h, *c, *y, *gates, *dy;
  const int64_t* lengths;
  T *dx, *dh, *dc, *of_products;  // of_products: of a gru, the gradients of the products of the state

  // Computes the gradients of the sums of one element, and replaces those of its state by what reaches the state before.
  __device__ void operator()(int64_t state) const {
    const int64_t n = s.hidden, b = state / n, j = state % n, at = t * s.batch + b,
                  length = s.length(lengths, b);
    T *d = dx + at * n * s.gates + j, *products = of_products ? of_products + b * n * s.gates + j : nullptr;
    if (t >= length) {
      for (int64_t g = 0; g < s.gates; ++g) {
        d[g * n] = 0;
        if (products) products[g * n] = 0;
      }
      return;
    }
    const bool is_first = s.is_first(t, length);
    const int64_t before = s.before(t) * s.batch + b;
    const T* v = gates + at * n * s.saved() + j;
    const T whole = dh[state] + dy[at * n + j];
    if (s.cell == RecurrentCell::kLstm) {
      const T c_before = is_first ? c[state] : gates[before * n * s.saved() + 4 * n + j];
      const auto r =
          lstm_gradients(LstmValues<T>{v[0], v[n], v[2 * n], v[3 * n], v[4 * n]}, c_before, whole, dc[state]);
      d[0] = r.i, d[n] = r.f, d[2 * n] = r.g, d[3 * n] = r.o;
      dc[state] = r.c, dh[state] = 0;
    } else if (s.cell == RecurrentCell::kGru) {
      const T h_before = is_first ? h[state] : y[before * n + j];
      const auto r = gru_gradients(GruValues<T>{v[0], v[n], v[2 * n], v[3 * n]}, h_before, whole);
      d[0] = products[0] = r.r, d[n] = products[n] = r.z;
      d[2 * n] = r.n, products[2 * n] = r.p;
      dh[state] = whole * v[n];
    } else {
      d[0] = s.cell == RecurrentCell::kRelu ? (v[0] > T(0) ? whole : T(0)) : whole * (T(1) - v[0] * v[0]);
      dh[state] = 0;
    }
  }
};

// dh [batch, hidden] += d [batch, rows] weight [rows, hidden]: a lane has one column, the warps of a block share the rows.
template <class T>
__global__ void __launch_bounds__(kSumWarps* kLanes)
    add_product(const T* d, const T* weight, T* dh, int64_t batch, int64_t rows, int64_t hidden) {
  __shared__ T parts[kSumWarps][kRows][kLanes];
  const int lane = static_cast<int>(threadIdx.x) % kLanes, warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t across = (hidden + kLanes - 1) / kLanes;
  const int64_t k = blockIdx.x % across * kLanes + lane, first = blockIdx.x / across * kRows;
  T sums[kRows] = {};
  for (int64_t m = warp; m < rows; m += kSumWarps) {
    const T w = k < hidden ? weight[m * hidden + k] : T(0);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (first + r < batch) sums[r] += w * d[(first + r) * rows + m];
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) parts[warp][r][lane] = sums[r];
  __syncthreads();
  const int64_t b = first + warp;  // a warp for each row
  if (k >= hidden || b >= batch) return;
  T sum = 0;
  for (int i = 0; i < kSumWarps; ++i) sum += parts[i][warp][lane];
  dh[b * hidden + k] += sum;
}
static_assert(kSumWarps == kRows);

template <class T>
void start_backward(const KernelContext& c) {
  const auto& op = c.attributes<ops::RecurrentGrad>();
  const TensorView& dx = c.output(0);
  BackStep<T> step{RecurrentShape::of(op.cell, op.reverse, dx.dim(0), dx.dim(1), c.input(0).dim(1))};
  const RecurrentShape& s = step.s;
  const bool is_lstm = s.cell == RecurrentCell::kLstm;
  const int y = 2 + (s.gates > 1) + op.has_lengths;
  step.weight = c.input(0).as<const T>(), step.h = c.input(1).as<const T>();
  step.c = is_lstm ? c.input(2).as<const T>() : nullptr;
  step.lengths = op.has_lengths ? c.input(y - 1).as<const int64_t>() : nullptr;
  step.y = c.input(y).as<const T>(), step.gates = c.input(y + 1).as<const T>();
  step.dy = c.input(y + 2).as<const T>();
  step.dx = dx.as<T>(), step.dh = c.output(1).as<T>(), step.dc = is_lstm ? c.output(2).as<T>() : nullptr;
  step.of_products = s.cell == RecurrentCell::kGru ? reinterpret_cast<T*>(c.scratch) : nullptr;
  copy(c, c.input(y + 3), step.dh);
  if (is_lstm) copy(c, c.input(y + 4), step.dc);
  const int64_t blocks = blocks_for(s.hidden, kLanes) * blocks_for(s.batch, kRows), rows = s.hidden * s.gates;
  for (int64_t i = s.time - 1; i >= 0; --i) {
    step.t = s.step(i);
    for_each(c, s.batch * s.hidden, step);
    const T* d = step.of_products ? step.of_products : step.dx + step.t * s.batch * rows;
    start(c, add_product<T>, blocks, kSumWarps * kLanes, 0, d, step.weight, step.dh, s.batch, rows, s.hidden);
  }
}

void run_recurrent(const KernelContext& c) {
  c.output().dtype == DType::f64 ? start_forward<double>(c) : start_forward<float>(c);
}
void run_gradient(const KernelContext& c) {
  c.output().dtype == DType::f64 ? start_backward<double>(c) : start_backward<float>(c);
}

int64_t bytes_of(const TensorType& state, int64_t times) {
  return state.shape[0].value() * state.shape[1].value() * times * static_cast<int64_t>(size_of(state.dtype));
}
int64_t forward_scratch(const KernelQuery& query) { return bytes_of(query.inputs[2], 2); }
int64_t backward_scratch(const KernelQuery& query) { return bytes_of(query.inputs[1], 3); }

constexpr OpKernel kKernels[] = {
    {"recurrent", {.name = "steps", .run = run_recurrent, .scratch_bytes = forward_scratch}},
    {"recurrent_grad", {.name = "steps", .run = run_gradient, .scratch_bytes = backward_scratch}}};

}  // namespace

std::span<const OpKernel> recurrent_kernels() { return kKernels; }

}  // namespace genesis::cuda
