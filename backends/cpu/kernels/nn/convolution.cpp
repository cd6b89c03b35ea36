// convolution, convolution_transposed and convolution_weight_gradient. The references sum in f64, tap by tap.
#include "schema/ops/nn/convolution.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "backends/common/window_shape.h"
#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

// Calls body(tap, element) for the taps at a position that meet elements; both are flat numbers.
template <class Body>
void for_each_tap(const WindowShape& windows, int64_t position, const Body& body) {
  const auto& [outer, middle, inner] = windows.axis;
  const int64_t p2 = position % inner.positions, p1 = position / inner.positions % middle.positions,
                p0 = position / inner.positions / middle.positions;
  int64_t tap = 0;
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1)
      for (int64_t t2 = 0; t2 < inner.taps; ++t2, ++tap) {
        const int64_t z = outer.element(p0, t0), y = middle.element(p1, t1), x = inner.element(p2, t2);
        if (outer.contains(z) && middle.contains(y) && inner.contains(x))
          body(tap, (z * middle.size + y) * inner.size + x);
      }
}

double activated(double x, ConvolutionActivation activation) {
  switch (activation) {
    case ConvolutionActivation::kRelu:
      return x < 0 ? 0 : x;
    case ConvolutionActivation::kRelu6:
      return x < 0 ? 0 : x > 6 ? 6 : x;
    case ConvolutionActivation::kHardswish:
      return x * std::clamp(x + 3, 0.0, 6.0) / 6;
    case ConvolutionActivation::kSilu:
      return x / (1 + std::exp(-x));
    case ConvolutionActivation::kGelu:
      return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2;
    case ConvolutionActivation::kGeluTanh:
      return x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) / 2;
    case ConvolutionActivation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return x;
  }
}

double number_at(const TensorView& x, int64_t i) {
  return dispatch(x.dtype, [&]<class T>(TypeTag<T>) { return static_cast<double>(x.as<const T>()[i]); });
}

template <class T>
void plain(const KernelContext& c, const ConvolutionShape& s) {
  const T *x = c.input(0).as<const T>(), *weight = c.input(1).as<const T>();
  const int64_t elements = s.windows.elements(), positions = s.windows.positions(), taps = s.windows.taps();
  const ChannelPlanes in_x = s.x_planes(), in_map = s.map_planes(), in_weight = s.weight_planes();
  parallel_rows(s.batch * s.out() * positions, s.depth() * 16, [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last; ++at) {
      const int64_t plane = in_map.plane_of(at, positions), out = plane % s.out();
      const int64_t from = plane / s.out() * s.in() + out / s.out_each * s.in_each;
      double sum = 0;
      for_each_tap(s.windows, in_map.place_of(at, positions), [&](int64_t tap, int64_t element) {
        for (int64_t i = 0; i < s.in_each; ++i)
          sum += static_cast<double>(x[in_x.at(from + i, elements, element)]) *
                 static_cast<double>(weight[in_weight.at(out * s.in_each + i, taps, tap)]);
      });
      if (s.has_scale) sum *= number_at(c.input(2), out);
      if (s.has_bias) sum += number_at(c.input(static_cast<int>(s.bias_input())), out);
      if (s.has_addend) sum += number_at(c.input(static_cast<int>(s.addend_input())), at);
      c.output().as<T>()[at] = static_cast<T>(activated(sum, s.activation));
    }
  });
}

// A task computes one channel of dx or one row of dw in f64.
template <class T>
void plain_transposed(const KernelContext& c, const ConvolutionShape& s) {
  const T *dy = c.input(0).as<const T>(), *weight = c.input(1).as<const T>();
  const int64_t elements = s.windows.elements(), positions = s.windows.positions(), taps = s.windows.taps();
  const ChannelPlanes in_x = s.x_planes(), in_map = s.map_planes(), in_weight = s.weight_planes();
  auto* sums = reinterpret_cast<double*>(c.scratch);
  parallel_chunks(s.batch * s.in(), [&](int64_t plane) {
    const int64_t image = plane / s.in(), group = plane % s.in() / s.in_each, i = plane % s.in_each;
    double* dx = sums + plane * elements;
    std::fill(dx, dx + elements, 0.0);
    for (int64_t o = 0; o < s.out_each; ++o) {
      const int64_t out = group * s.out_each + o;
      const T *from = dy + in_map.first(image * s.out() + out, positions),
              *by = weight + in_weight.first(out * s.in_each + i, taps);
      for (int64_t position = 0; position < positions; ++position)
        for_each_tap(s.windows, position, [&](int64_t tap, int64_t element) {
          dx[element] += static_cast<double>(from[position * in_map.step()]) *
                         static_cast<double>(by[tap * in_weight.step()]);
        });
    }
    for (int64_t i = 0; i < elements; ++i)
      c.output().as<T>()[in_x.at(plane, elements, i)] = static_cast<T>(dx[i]);
  });
}

template <class T>
void plain_weight_gradient(const KernelContext& c, const ConvolutionShape& s) {
  const T *x = c.input(0).as<const T>(), *dy = c.input(1).as<const T>();
  const int64_t elements = s.windows.elements(), positions = s.windows.positions(), taps = s.windows.taps();
  const ChannelPlanes in_x = s.x_planes(), in_map = s.map_planes(), in_weight = s.weight_planes();
  auto* sums = reinterpret_cast<double*>(c.scratch);
  parallel_chunks(s.out() * s.in_each, [&](int64_t row) {
    const int64_t out = row / s.in_each, in = out / s.out_each * s.in_each + row % s.in_each;
    double* dw = sums + row * taps;
    std::fill(dw, dw + taps, 0.0);
    for (int64_t image = 0; image < s.batch; ++image) {
      const T *from = x + in_x.first(image * s.in() + in, elements),
              *by = dy + in_map.first(image * s.out() + out, positions);
      for (int64_t position = 0; position < positions; ++position)
        for_each_tap(s.windows, position, [&](int64_t tap, int64_t element) {
          dw[tap] += static_cast<double>(from[element * in_x.step()]) *
                     static_cast<double>(by[position * in_map.step()]);
        });
    }
    for (int64_t tap = 0; tap < taps; ++tap)
      c.output().as<T>()[in_weight.at(row, taps, tap)] = static_cast<T>(dw[tap]);
  });
}

template <class F>
void dispatch_real(const KernelContext& c, const F& f) {
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (!std::is_integral_v<T>) f(tag, c.prepared<ConvolutionShape>());
  });
}

void run_plain(const KernelContext& c) {
  dispatch_real(c, [&]<class T>(TypeTag<T>, const ConvolutionShape& s) { plain<T>(c, s); });
}
void run_plain_transposed(const KernelContext& c) {
  dispatch_real(c, [&]<class T>(TypeTag<T>, const ConvolutionShape& s) { plain_transposed<T>(c, s); });
}
void run_plain_weight_gradient(const KernelContext& c) {
  dispatch_real(c, [&]<class T>(TypeTag<T>, const ConvolutionShape& s) { plain_weight_gradient<T>(c, s); });
}

std::optional<std::string> plain_declines(const KernelQuery& query) {
  if (convolution_shape(query).is_packed) return "takes weights as a file has them";
  return std::nullopt;
}

int64_t sums_of_result(const KernelQuery& query) { return checked_mul(query.outputs[0].numel(), 8); }

const OpKernel kKernels[] = {
    {"convolution", neighbor_convolution()},
    {"convolution", winograd_convolution()},
    {"convolution", pixel_convolution()},
    {"convolution", depthwise_convolution()},
    {"convolution", tiled_convolution()},
    {"convolution",
     {.name = "plain", .run = run_plain, .can_run = plain_declines, .prepare = prepare_convolution}},
    {"convolution_transposed", tiled_transposed()},
    {"convolution_transposed",
     {.name = "plain",
      .run = run_plain_transposed,
      .scratch_bytes = sums_of_result,
      .prepare = prepare_convolution}},
    {"convolution_weight_gradient", tiled_weight_gradient()},
    {"convolution_weight_gradient",
     {.name = "plain",
      .run = run_plain_weight_gradient,
      .scratch_bytes = sums_of_result,
      .prepare = prepare_convolution}},
};

}  // namespace

std::span<const OpKernel> convolution_kernels() { return kKernels; }

}  // namespace genesis::cpu
