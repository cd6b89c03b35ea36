#include "backends/cuda/convolution/window_kernels.h"

#include "backends/cuda/convolution/window_epilogue.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

// The place of a flat number along three axes.
struct WindowPlace {
  int64_t at[kMaxSpatialAxes];

  __device__ WindowPlace(int64_t flat, int64_t middle, int64_t inner)
      : at{flat / inner / middle, flat / inner % middle, flat % inner} {}
};

// Calls body(tap, element) for the taps at a position that meet elements, in row-major order.
template <class Body>
__device__ void for_each_window_tap(const WindowShape& w, int64_t position, const Body& body) {
  const auto& [outer, middle, inner] = w.axis;
  const WindowPlace p(position, middle.positions, inner.positions);
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1)
      for (int64_t t2 = 0; t2 < inner.taps; ++t2) {
        const int64_t z = outer.element(p.at[0], t0), y = middle.element(p.at[1], t1),
                      x = inner.element(p.at[2], t2);
        if (outer.contains(z) && middle.contains(y) && inner.contains(x))
          body((t0 * middle.taps + t1) * inner.taps + t2, (z * middle.size + y) * inner.size + x);
      }
}

// Returns the position at which a tap meets the element, or -1.
__device__ inline int64_t position_of(const WindowAxis& a, int64_t element, int64_t tap) {
  const int64_t distance = element + a.begin - tap * a.dilation;
  if (distance < 0 || distance % a.stride != 0) return -1;
  return distance / a.stride < a.positions ? distance / a.stride : -1;
}

// Calls body(tap, position) for the positions whose windows contain an element.
template <class Body>
__device__ void for_each_window_of(const WindowShape& w, int64_t element, const Body& body) {
  const auto& [outer, middle, inner] = w.axis;
  const WindowPlace e(element, middle.size, inner.size);
  for (int64_t t0 = 0; t0 < outer.taps; ++t0)
    for (int64_t t1 = 0; t1 < middle.taps; ++t1)
      for (int64_t t2 = 0; t2 < inner.taps; ++t2) {
        const int64_t z = position_of(outer, e.at[0], t0), y = position_of(middle, e.at[1], t1),
                      x = position_of(inner, e.at[2], t2);
        if (z >= 0 && y >= 0 && x >= 0)
          body((t0 * middle.taps + t1) * inner.taps + t2, (z * middle.positions + y) * inner.positions + x);
      }
}

struct ConvolutionSizes {
  int64_t groups, in_each, out_each, batch;
  ChannelPlanes in_x, in_map, in_weight;
};

template <class T>
struct ConvolutionSum {
  WindowShape windows;
  ConvolutionSizes s;
  const T *x, *weight;
  T* y;
  WindowEpilogue<T> epilogue;

  __device__ void operator()(int64_t i) const {
    const int64_t positions = windows.positions(), elements = windows.elements(), taps = windows.taps();
    const int64_t plane = s.in_map.plane_of(i, positions), outs = s.groups * s.out_each;
    const int64_t out = plane % outs, from = (plane / outs * s.groups + out / s.out_each) * s.in_each;
    wide_t<T> sum = 0;
    for_each_window_tap(windows, s.in_map.place_of(i, positions), [&](int64_t tap, int64_t element) {
      for (int64_t k = 0; k < s.in_each; ++k)
        sum += widen(x[s.in_x.at(from + k, elements, element)]) *
               widen(weight[s.in_weight.at(out * s.in_each + k, taps, tap)]);
    });
    y[i] = converted<T>(epilogue(sum, i));
  }
};

template <class T>
struct TransposedSum {
  WindowShape windows;
  ConvolutionSizes s;
  const T *dy, *weight;
  T* dx;

  __device__ void operator()(int64_t i) const {
    const int64_t positions = windows.positions(), elements = windows.elements(), taps = windows.taps();
    const int64_t plane = s.in_x.plane_of(i, elements), ins = s.groups * s.in_each;
    const int64_t in = plane % ins, first = in / s.in_each * s.out_each,
                  from = plane / ins * s.groups * s.out_each + first;
    wide_t<T> sum = 0;
    for_each_window_of(windows, s.in_x.place_of(i, elements), [&](int64_t tap, int64_t position) {
      for (int64_t o = 0; o < s.out_each; ++o)
        sum += widen(dy[s.in_map.at(from + o, positions, position)]) *
               widen(weight[s.in_weight.at((first + o) * s.in_each + in % s.in_each, taps, tap)]);
    });
    dx[i] = converted<T>(sum);
  }
};

template <class T>
struct WeightGradientSum {
  WindowShape windows;
  ConvolutionSizes s;
  const T *x, *dy;
  T* dw;

  __device__ void operator()(int64_t i) const {
    const auto& [outer, middle, inner] = windows.axis;
    const int64_t positions = windows.positions(), elements = windows.elements(), taps = windows.taps();
    const int64_t row = s.in_weight.plane_of(i, taps), out = row / s.in_each,
                  in = out / s.out_each * s.in_each + row % s.in_each;
    const WindowPlace tap(s.in_weight.place_of(i, taps), middle.taps, inner.taps);
    wide_t<T> sum = 0;
    for (int64_t image = 0; image < s.batch; ++image) {
      const T* from = x + s.in_x.first(image * s.groups * s.in_each + in, elements);
      const T* by = dy + s.in_map.first(image * s.groups * s.out_each + out, positions);
      for (int64_t position = 0; position < positions; ++position) {
        const WindowPlace p(position, middle.positions, inner.positions);
        const int64_t z = outer.element(p.at[0], tap.at[0]), y = middle.element(p.at[1], tap.at[1]),
                      column = inner.element(p.at[2], tap.at[2]);
        if (outer.contains(z) && middle.contains(y) && inner.contains(column))
          sum += widen(from[((z * middle.size + y) * inner.size + column) * s.in_x.step()]) *
                 widen(by[position * s.in_map.step()]);
      }
    }
    dw[i] = converted<T>(sum);
  }
};

template <class T>
struct ConvolutionFinish {
  T* y;
  WindowEpilogue<T> epilogue;
  __device__ void operator()(int64_t i) const { y[i] = converted<T>(epilogue(widen(y[i]), i)); }
};

// Returns the first greatest element of a window, where NaN is greatest; -1 if it has none. Elements of x lie `step` apart.
template <class T>
__device__ int64_t greatest_element(const WindowShape& windows, int64_t position, const T* x, int64_t step) {
  int64_t best = -1;
  wide_t<T> greatest = 0;
  for_each_window_tap(windows, position, [&](int64_t, int64_t element) {
    const wide_t<T> value = widen(x[element * step]);
    if (best >= 0 && !(value > greatest) && !(value != value && greatest == greatest)) return;
    best = element, greatest = value;
  });
  return best;
}

__device__ inline int64_t counted_at(const WindowShape& windows, bool count_padding, int64_t position) {
  const auto& [outer, middle, inner] = windows.axis;
  const WindowPlace p(position, middle.positions, inner.positions);
  return outer.counted(p.at[0], count_padding) * middle.counted(p.at[1], count_padding) *
         inner.counted(p.at[2], count_padding);
}

template <class T>
struct MaxPooling {
  WindowShape windows;
  ChannelPlanes layout;
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t positions = windows.positions();
    const T* plane = x + layout.first(layout.plane_of(i, positions), windows.elements());
    const int64_t best = greatest_element(windows, layout.place_of(i, positions), plane, layout.step());
    y[i] = best < 0 ? converted<T>(wide_t<T>(-INFINITY)) : plane[best * layout.step()];
  }
};

template <class T>
struct MaxPoolingGradient {
  WindowShape windows;
  ChannelPlanes layout;
  const T *x, *dy;
  T* dx;
  __device__ void operator()(int64_t i) const {
    const int64_t elements = windows.elements(), plane = layout.plane_of(i, elements),
                  element = layout.place_of(i, elements);
    const T* from = dy + layout.first(plane, windows.positions());
    const T* compared = x + layout.first(plane, elements);
    wide_t<T> sum = 0;
    for_each_window_of(windows, element, [&](int64_t, int64_t position) {
      if (greatest_element(windows, position, compared, layout.step()) == element)
        sum += widen(from[position * layout.step()]);
    });
    dx[i] = converted<T>(sum);
  }
};

template <class T>
struct AveragePooling {
  WindowShape windows;
  ChannelPlanes layout;
  bool count_padding;
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t positions = windows.positions(), position = layout.place_of(i, positions);
    const T* plane = x + layout.first(layout.plane_of(i, positions), windows.elements());
    wide_t<T> sum = 0;
    for_each_window_tap(windows, position,
                        [&](int64_t, int64_t element) { sum += widen(plane[element * layout.step()]); });
    y[i] = converted<T>(sum / static_cast<wide_t<T>>(counted_at(windows, count_padding, position)));
  }
};

template <class T>
struct AveragePoolingGradient {
  WindowShape windows;
  ChannelPlanes layout;
  bool count_padding;
  const T* dy;
  T* dx;
  __device__ void operator()(int64_t i) const {
    const int64_t elements = windows.elements();
    const T* from = dy + layout.first(layout.plane_of(i, elements), windows.positions());
    wide_t<T> sum = 0;
    for_each_window_of(windows, layout.place_of(i, elements), [&](int64_t, int64_t position) {
      sum += widen(from[position * layout.step()]) /
             static_cast<wide_t<T>>(counted_at(windows, count_padding, position));
    });
    dx[i] = converted<T>(sum);
  }
};

ConvolutionSizes convolution_sizes(const ConvolutionShape& s) {
  return {s.groups, s.in_each, s.out_each, s.batch, s.x_planes(), s.map_planes(), s.weight_planes()};
}

// Calls body(Tag<T>{}) with the device type of the result, and launches the functor that it returns on every element.
template <class Body>
void for_each_result(const KernelContext& c, const Body& body) {
  dispatch_float(c.output().dtype, [&](auto tag) { for_each(c, c.output().numel(), body(tag)); });
}

template <class Of, class View>
auto* elements_of(Of, const View& view) {
  return view.template as<typename Of::type>();
}

}  // namespace

void run_plain_convolution(const KernelContext& c) {
  const auto& s = c.prepared<ConvolutionShape>();
  for_each_result(c, [&](auto t) {
    using T = typename decltype(t)::type;
    return ConvolutionSum<T>{s.windows,
                             convolution_sizes(s),
                             elements_of(t, c.input(0)),
                             elements_of(t, c.input(1)),
                             elements_of(t, c.output()),
                             window_epilogue<T>(c, s)};
  });
}

void run_plain_transposed(const KernelContext& c) {
  const auto& s = c.prepared<ConvolutionShape>();
  for_each_result(c, [&](auto t) {
    return TransposedSum<typename decltype(t)::type>{s.windows, convolution_sizes(s),
                                                     elements_of(t, c.input(0)), elements_of(t, c.input(1)),
                                                     elements_of(t, c.output())};
  });
}

void run_plain_weight_gradient(const KernelContext& c) {
  const auto& s = c.prepared<ConvolutionShape>();
  for_each_result(c, [&](auto t) {
    return WeightGradientSum<typename decltype(t)::type>{
        s.windows, convolution_sizes(s), elements_of(t, c.input(0)), elements_of(t, c.input(1)),
        elements_of(t, c.output())};
  });
}

void finish_convolution(const KernelContext& c, const ConvolutionShape& s) {
  if (!s.has_scale && !s.has_bias && !s.has_addend && s.activation == ConvolutionActivation::kNone) return;
  for_each_result(c, [&](auto t) {
    using T = typename decltype(t)::type;
    return ConvolutionFinish<T>{elements_of(t, c.output()), window_epilogue<T>(c, s)};
  });
}

void run_max_pool(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  for_each_result(c, [&](auto t) {
    return MaxPooling<typename decltype(t)::type>{s.windows, s.layout, elements_of(t, c.input(0)),
                                                  elements_of(t, c.output())};
  });
}

void run_max_pool_grad(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  for_each_result(c, [&](auto t) {
    return MaxPoolingGradient<typename decltype(t)::type>{s.windows, s.layout, elements_of(t, c.input(0)),
                                                          elements_of(t, c.input(1)),
                                                          elements_of(t, c.output())};
  });
}

void run_average_pool(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  for_each_result(c, [&](auto t) {
    return AveragePooling<typename decltype(t)::type>{s.windows, s.layout, s.count_padding,
                                                      elements_of(t, c.input(0)), elements_of(t, c.output())};
  });
}

void run_average_pool_grad(const KernelContext& c) {
  const auto& s = c.prepared<PoolShape>();
  for_each_result(c, [&](auto t) {
    return AveragePoolingGradient<typename decltype(t)::type>{
        s.windows, s.layout, s.count_padding, elements_of(t, c.input(0)), elements_of(t, c.output())};
  });
}

}  // namespace genesis::cuda
