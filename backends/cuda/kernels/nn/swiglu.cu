// swiglu and its gradient, one pass each, computed in f32 (f64 for f64). Accesses of 16 bytes keep it at the memory's
// bandwidth.
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/ops/nn/swiglu.h"

namespace genesis::cuda {
namespace {

// Index of the packs of gate and up: side by side in rows of one operand, or (one_row) in two operands.
struct PackIndex {
  Divisor columns;   // packs of y per row
  int64_t step = 0;  // from a row of gate to the next
  bool one_row = true, small = true;

  __device__ int64_t operator()(int64_t i) const {
    if (one_row) return i;
    const FlatIndex at = divide(static_cast<uint64_t>(i), columns, small);
    return static_cast<int64_t>(at.quotient) * step + static_cast<int64_t>(at.remainder);
  }
};

template <class T, int N>
__global__ void forward(int64_t packs, PackIndex index, const Pack<T, N>* gate, const Pack<T, N>* up,
                        Pack<T, N>* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  const int64_t at = index(i);
  const Pack<T, N> g = gate[at], u = up[at];
  Pack<T, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k) out.at[k] = narrow<T>(gated<T>(widen(g.at[k]), widen(u.at[k])));
  y[i] = out;
}

// If `y` is not null it receives the forward output again, with the same bits.
template <class T, int N>
__global__ void backward(int64_t packs, PackIndex index, const Pack<T, N>* gate, const Pack<T, N>* up,
                         const Pack<T, N>* dy, Pack<T, N>* dgate, Pack<T, N>* dup, Pack<T, N>* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  const int64_t at = index(i);
  const Pack<T, N> g = gate[at], u = up[at], d = dy[i];
  Pack<T, N> dg, du, out;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const GatedGradient<T> made = gated_gradient<T>(widen(g.at[k]), widen(u.at[k]), widen(d.at[k]));
    dg.at[k] = narrow<T>(made.dgate);
    du.at[k] = narrow<T>(made.dup);
    out.at[k] = narrow<T>(made.y);
  }
  dgate[at] = dg;
  dup[at] = du;
  if (y) y[i] = out;
}

// Returns the number of elements that the pack size must divide: a row, if gate and up are in one operand.
int64_t row_size(const TensorView& y, bool packed) { return packed ? y.dim(-1) : y.numel(); }

PackIndex index_of(const TensorView& y, bool packed, int pack) {
  const int64_t columns = packed ? y.dim(-1) / pack : 1;
  return {make_divisor(columns), 2 * columns, !packed, is_small(y.numel() / pack)};
}

void run_forward(const KernelContext& c) {
  const TensorView& y = c.output();
  const bool packed = c.num_inputs() == 1;
  if (y.numel() == 0) return;
  dispatch_float(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_packs<T>(c, row_size(y, packed), [&](auto size) {
      using P = Pack<T, size()>;
      const int64_t packs = y.numel() / size();
      const P* gate = c.input(0).as<const P>();
      start(c, forward<T, size()>, blocks_for(packs, kThreads), kThreads, 0, packs,
            index_of(y, packed, size()), gate, packed ? gate + y.dim(-1) / size() : c.input(1).as<const P>(),
            y.as<P>());
    });
  });
}

void run_backward(const KernelContext& c) {
  const TensorView& dy = c.inputs.back();
  const bool packed = c.num_inputs() == 2;
  if (dy.numel() == 0) return;
  dispatch_float(dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_packs<T>(c, row_size(dy, packed), [&](auto size) {
      using P = Pack<T, size()>;
      const int64_t packs = dy.numel() / size(), half = packed ? dy.dim(-1) / size() : 0;
      const P* gate = c.input(0).as<const P>();
      P* dgate = c.output(0).as<P>();
      P* y = c.attributes<ops::SwigluGrad>().with_output ? c.outputs.back().as<P>() : nullptr;
      start(c, backward<T, size()>, blocks_for(packs, kThreads), kThreads, 0, packs,
            index_of(dy, packed, size()), gate, packed ? gate + half : c.input(1).as<const P>(),
            dy.as<const P>(), dgate, packed ? dgate + half : c.output(1).as<P>(), y);
    });
  });
}

constexpr OpKernel kOps[] = {{"swiglu", {.name = "one_pass", .run = run_forward}},
                             {"swiglu_grad", {.name = "one_pass", .run = run_backward}}};

}  // namespace

std::span<const OpKernel> swiglu_kernels() { return kOps; }

}  // namespace genesis::cuda
