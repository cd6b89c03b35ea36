// recurrent and its gradient on the CPU: for each step one product of the states of all rows, then the cells, row by row in vector
// code that the compiler makes.
#include "schema/ops/nn/recurrent.h"

#include <algorithm>

#include "backends/common/recurrent_cell.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kOpsOfCell = 64;  // a cell costs as much as moving this many bytes for each element

template <class Op>
RecurrentShape shape_of(const Op& op, const TensorType& x, const TensorType& weight) {
  return RecurrentShape::of(op.cell, op.reverse, x.shape[0].value(), x.shape[1].value(),
                            weight.shape[1].value());
}
int64_t bytes_of(int64_t elements, DType dtype) { return elements * static_cast<int64_t>(size_of(dtype)); }

// The product of one step, h weight^T forward and d weight backward, and where its result lies in the scratch memory.
struct StepProduct {
  RecurrentShape shape;
  std::shared_ptr<const Gemm> gemm;
  int64_t gemm_bytes = 0, result = 0;

  std::byte* products(const KernelContext& c) const { return c.scratch + (gemm_bytes + 63) / 64 * 64; }
  int64_t bytes() const { return (gemm_bytes + 63) / 64 * 64 + result; }
};

StepProduct make_product(const RecurrentShape& shape, DType dtype, bool backward,
                         const KernelNames* disabled) {
  StepProduct made{shape, nullptr, 0, bytes_of(shape.batch * shape.hidden * shape.gates, dtype)};
  if (shape.batch * shape.hidden == 0) return made;
  const int64_t wide = shape.hidden * shape.gates, hidden = shape.hidden;
  GemmProblem problem{.a = dtype, .b = dtype, .c = dtype, .m = shape.batch};
  problem.n = backward ? hidden : wide, problem.k = backward ? wide : hidden;
  problem.lda = problem.k, problem.ldb = hidden, problem.ldc = problem.n;
  problem.transpose_b = !backward;
  problem.accumulate = backward;
  made.gemm = Gemm::create(problem, disabled);
  made.gemm_bytes = made.gemm->scratch_bytes();
  return made;
}

// Rows of one step; the arrays of a row are disjoint, and `gates` is a row of scratch memory if nothing reads it.
template <class T>
void lstm_row(int64_t n, const T* __restrict x, const T* __restrict p, T* __restrict h, T* __restrict c,
              T* __restrict y, T* __restrict gates) {
  for (int64_t j = 0; j < n; ++j) {
    const LstmValues<T> v = lstm_values(x[j] + p[j], x[n + j] + p[n + j], x[2 * n + j] + p[2 * n + j],
                                        x[3 * n + j] + p[3 * n + j], c[j]);
    c[j] = v.c;
    h[j] = y[j] = v.o * hyperbolic(v.c);
    gates[j] = v.i, gates[n + j] = v.f, gates[2 * n + j] = v.g, gates[3 * n + j] = v.o,
    gates[4 * n + j] = v.c;
  }
}
template <class T>
void gru_row(int64_t n, const T* __restrict x, const T* __restrict p, const T* __restrict bias,
             T* __restrict h, T* __restrict y, T* __restrict gates) {
  for (int64_t j = 0; j < n; ++j) {
    const GruValues<T> v = gru_values(x[j] + p[j], x[n + j] + p[n + j], x[2 * n + j], p[2 * n + j] + bias[j]);
    h[j] = y[j] = gru_state(v, h[j]);
    gates[j] = v.r, gates[n + j] = v.z, gates[2 * n + j] = v.n, gates[3 * n + j] = v.p;
  }
}
template <class T>
void plain_row(int64_t n, bool is_relu, const T* __restrict x, const T* __restrict p, T* __restrict h,
               T* __restrict y, T* __restrict gates) {
  for (int64_t j = 0; j < n; ++j) {
    const T sum = x[j] + p[j];
    h[j] = y[j] = gates[j] = is_relu ? (sum < T(0) ? T(0) : sum) : hyperbolic(sum);
  }
}

template <class T>
struct Forward {
  const KernelContext& c;
  const StepProduct& product;
  const RecurrentShape& s = product.shape;
  const bool is_lstm = s.cell == RecurrentCell::kLstm, with_gates = c.attributes<ops::Recurrent>().with_gates;
  const int states = is_lstm ? 2 : 1;
  const bool has_extra = s.gates > 1;
  const int64_t* lengths = c.num_inputs() > (has_extra ? 4 : 3) ? c.inputs.back().as<const int64_t>()
                                                                : nullptr;
  T *h = c.output(1).template as<T>(), *cell = is_lstm ? c.output(2).template as<T>() : nullptr;
  T* p = reinterpret_cast<T*>(product.products(c));
  T* unread = p + s.batch * s.hidden * s.gates;  // [batch, saved * hidden], without with_gates

  void run() {
    std::copy_n(c.input(2).as<const T>(), s.batch * s.hidden, h);
    if (is_lstm) std::copy_n(c.input(3).as<const T>(), s.batch * s.hidden, cell);
    for (int64_t i = 0; i < s.time; ++i) {
      product.gemm->run(h, c.input(1).data, p, nullptr, c.scratch);
      parallel_rows(s.batch, s.hidden * kOpsOfCell, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) run_row(s.step(i), b);
      });
    }
  }

  void run_row(int64_t t, int64_t b) const {
    const int64_t n = s.hidden, at = t * s.batch + b;
    T *y = c.output(0).as<T>() + at * n, *h_row = h + b * n;
    T* gates = with_gates ? c.outputs.back().as<T>() + at * n * s.saved() : unread + b * n * s.saved();
    if (t >= s.length(lengths, b)) {
      std::fill_n(y, n, T(0)), std::fill_n(gates, n * s.saved(), T(0));
      return;
    }
    const T *x = c.input(0).as<const T>() + at * n * s.gates, *products = p + b * n * s.gates;
    if (is_lstm)
      lstm_row(n, x, products, h_row, cell + b * n, y, gates);
    else if (has_extra)
      gru_row(n, x, products, c.input(3).as<const T>(), h_row, y, gates);
    else
      plain_row(n, s.cell == RecurrentCell::kRelu, x, products, h_row, y, gates);
  }
};

// The gradients of a row of one step: dh, which has been added to, becomes what reaches the state before without the product.
template <class T>
void lstm_row_gradient(int64_t n, const T* __restrict gates, const T* __restrict c_before, T* __restrict dh,
                       T* __restrict dc, T* __restrict dx) {
  for (int64_t j = 0; j < n; ++j) {
    const LstmValues<T> v{gates[j], gates[n + j], gates[2 * n + j], gates[3 * n + j], gates[4 * n + j]};
    const LstmValues<T> d = lstm_gradients(v, c_before[j], dh[j], dc[j]);
    dx[j] = d.i, dx[n + j] = d.f, dx[2 * n + j] = d.g, dx[3 * n + j] = d.o;
    dc[j] = d.c, dh[j] = T(0);
  }
}
template <class T>
void gru_row_gradient(int64_t n, const T* __restrict gates, const T* __restrict h_before, T* __restrict dh,
                      T* __restrict dx, T* __restrict of_products) {
  for (int64_t j = 0; j < n; ++j) {
    const GruValues<T> v{gates[j], gates[n + j], gates[2 * n + j], gates[3 * n + j]};
    const GruValues<T> d = gru_gradients(v, h_before[j], dh[j]);
    dx[j] = of_products[j] = d.r, dx[n + j] = of_products[n + j] = d.z;
    dx[2 * n + j] = d.n, of_products[2 * n + j] = d.p;
    dh[j] *= v.z;
  }
}
template <class T>
void plain_row_gradient(int64_t n, bool is_relu, const T* __restrict gates, T* __restrict dh,
                        T* __restrict dx) {
  for (int64_t j = 0; j < n; ++j) {
    dx[j] = is_relu ? (gates[j] > T(0) ? dh[j] : T(0)) : dh[j] * (T(1) - gates[j] * gates[j]);
    dh[j] = T(0);
  }
}

template <class T>
struct Backward {
  const KernelContext& c;
  const StepProduct& product;
  const RecurrentShape& s = product.shape;
  const ops::RecurrentGrad& op = c.attributes<ops::RecurrentGrad>();
  const bool is_lstm = s.cell == RecurrentCell::kLstm, is_gru = s.cell == RecurrentCell::kGru;
  const int at_y = 2 + (s.gates > 1) + op.has_lengths;
  const int64_t* lengths = op.has_lengths ? c.input(at_y - 1).template as<const int64_t>() : nullptr;
  const T *y = c.input(at_y).template as<const T>(), *gates = c.input(at_y + 1).template as<const T>(),
          *dy = c.input(at_y + 2).template as<const T>();
  T *dx = c.output(0).template as<T>(), *dh = c.output(1).template as<T>();
  T* dc = is_lstm ? c.output(2).template as<T>() : nullptr;
  T* of_products = reinterpret_cast<T*>(product.products(c));  // a gru's

  void run() {
    std::copy_n(c.input(at_y + 3).as<const T>(), s.batch * s.hidden, dh);
    if (is_lstm) std::copy_n(c.input(at_y + 4).as<const T>(), s.batch * s.hidden, dc);
    for (int64_t i = s.time - 1; i >= 0; --i) {
      const int64_t t = s.step(i);
      parallel_rows(s.batch, s.hidden * kOpsOfCell, [&](int64_t first, int64_t last) {
        for (int64_t b = first; b < last; ++b) run_row(t, b);
      });
      const T* d = is_gru ? of_products : dx + t * s.batch * s.hidden * s.gates;
      product.gemm->run(d, c.input(0).data, dh, nullptr, c.scratch);
    }
  }

  void run_row(int64_t t, int64_t b) const {
    const int64_t n = s.hidden, at = t * s.batch + b, length = s.length(lengths, b);
    T *dx_row = dx + at * n * s.gates, *dh_row = dh + b * n, *products = of_products + b * n * s.gates;
    if (t >= length) {
      std::fill_n(dx_row, n * s.gates, T(0));
      if (is_gru) std::fill_n(products, n * s.gates, T(0));
      return;
    }
    const int64_t before = s.before(t) * s.batch + b;
    const bool is_first = s.is_first(t, length);
    const T* row = gates + at * n * s.saved();
    for (int64_t j = 0; j < n; ++j) dh_row[j] += dy[at * n + j];
    if (is_lstm)
      lstm_row_gradient(n, row,
                        is_first ? c.input(2).as<const T>() + b * n : gates + before * n * s.saved() + 4 * n,
                        dh_row, dc + b * n, dx_row);
    else if (is_gru)
      gru_row_gradient(n, row, is_first ? c.input(1).as<const T>() + b * n : y + before * n, dh_row, dx_row,
                       products);
    else
      plain_row_gradient(n, s.cell == RecurrentCell::kRelu, row, dh_row, dx_row);
  }
};

StepProduct forward_product(const KernelQuery& q) {
  const auto op = from_attributes<ops::Recurrent>(q.attributes);
  StepProduct made =
      make_product(shape_of(op, q.inputs[0], q.inputs[1]), q.outputs[0].dtype, false, q.disabled);
  const RecurrentShape& s = made.shape;
  if (!op.with_gates) made.result += bytes_of(s.batch * s.hidden * s.saved(), q.outputs[0].dtype);
  return made;
}
StepProduct backward_product(const KernelQuery& q) {
  const auto op = from_attributes<ops::RecurrentGrad>(q.attributes);
  return make_product(shape_of(op, q.outputs[0], q.inputs[0]), q.outputs[0].dtype, true, q.disabled);
}

template <StepProduct (*product)(const KernelQuery&)>
std::shared_ptr<const void> prepare_recurrent(const KernelQuery& q) {
  return std::make_shared<const StepProduct>(product(q));
}
template <StepProduct (*product)(const KernelQuery&)>
int64_t recurrent_scratch(const KernelQuery& q) {
  return product(q).bytes();
}

template <template <class> class Direction>
void run_recurrent(const KernelContext& c) {
  const auto& product = c.prepared<StepProduct>();
  if (!product.gemm) return;  // the states are empty
  c.output().dtype == DType::f64 ? Direction<double>{c, product}.run() : Direction<float>{c, product}.run();
}

constexpr OpKernel kKernels[] = {{"recurrent",
                                  {.name = "steps",
                                   .run = run_recurrent<Forward>,
                                   .scratch_bytes = recurrent_scratch<forward_product>,
                                   .prepare = prepare_recurrent<forward_product>}},
                                 {"recurrent_grad",
                                  {.name = "steps",
                                   .run = run_recurrent<Backward>,
                                   .scratch_bytes = recurrent_scratch<backward_product>,
                                   .prepare = prepare_recurrent<backward_product>}}};

}  // namespace

std::span<const OpKernel> recurrent_kernels() { return kKernels; }

}  // namespace genesis::cpu
