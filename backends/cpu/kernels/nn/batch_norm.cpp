// batch_norm and its gradient. A task has a channel, and sums its numbers in blocks whose order depends on the shape alone.
#include "schema/ops/nn/batch_norm.h"

#include <cmath>

#include "backends/common/batch_norm_shape.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

template <class T>
using WideOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Numbers of a channel in one image, `step` apart.
template <class T>
struct Numbers {
  T* first = nullptr;
  int64_t step = 1;
};
template <class T>
Numbers<T> numbers_at(const BatchNormShape& s, T* tensor, int64_t channel, int64_t image) {
  return {tensor + s.planes.first(image * s.channels() + channel, s.elements), s.planes.step()};
}

// Sums term(i) over i < n in f64, by lanes within blocks so that compilers use vectors.
template <class W, class Term>
double sum_of(int64_t n, const Term& term) {
  constexpr int64_t kLanes = 16, kBlock = 1024;
  double all = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    W lanes[kLanes] = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (int64_t j = 0; j < kLanes; ++j) lanes[j] += term(i + j);
    for (; i < end; ++i) lanes[0] += term(i);
    for (const W lane : lanes) all += static_cast<double>(lane);
  }
  return all;
}

double number_of(const TensorView& view, int64_t i) {
  double number = 0;
  dispatch(view.dtype, [&]<class T>(TypeTag<T>) { number = static_cast<double>(view.as<const T>()[i]); });
  return number;
}

// Calls body(T{}, channel) for every channel.
template <class Body>
void for_each_channel(const BatchNormShape& s, const Body& body) {
  dispatch(s.dtype, [&]<class T>(TypeTag<T> tag) {
    if constexpr (!std::is_integral_v<T>)
      parallel_rows(s.channels(), s.numbers() * 8, [&](int64_t first, int64_t last) {
        for (int64_t channel = first; channel < last; ++channel) body(tag, channel);
      });
  });
}

// y = activation((x - mean) * scale + bias + addend)
template <class W>
struct Line {
  W mean, scale, bias;
  W operator()(W x) const { return (x - mean) * scale + bias; }
};

template <class T>
void write_channel(const KernelContext& c, const BatchNormShape& s, int64_t channel,
                   const Line<WideOf<T>>& line, const TensorView& to) {
  using W = WideOf<T>;
  for (int64_t image = 0; image < s.batch; ++image) {
    const auto x = numbers_at(s, c.input(0).as<const T>(), channel, image);
    const auto y = numbers_at(s, to.as<T>(), channel, image);
    const auto addend =
        s.has_addend ? numbers_at(s, c.input(3).as<const T>(), channel, image) : Numbers<const T>();
    for (int64_t i = 0; i < s.elements; ++i) {
      W v = line(static_cast<W>(x.first[i * x.step]));
      if (addend.first) v += static_cast<W>(addend.first[i * addend.step]);
      y.first[i * y.step] = static_cast<T>(s.relu && v < 0 ? W(0) : v);
    }
  }
}

template <class W>
Line<W> line_of(W mean, W var, const BatchNormShape& s, const TensorView& weight, const TensorView& bias,
                int64_t channel) {
  const double scale = number_of(weight, channel) / std::sqrt(static_cast<double>(var) + s.eps);
  return {mean, static_cast<W>(scale), static_cast<W>(number_of(bias, channel))};
}

void run_batch_norm(const KernelContext& c) {
  const auto& s = c.prepared<BatchNormShape>();
  for_each_channel(s, [&]<class T>(TypeTag<T>, int64_t channel) {
    using W = WideOf<T>;
    const auto n = static_cast<double>(s.numbers());
    double sum = 0, squares = 0;
    const auto over_images = [&](double& to, const auto& term) {
      for (int64_t image = 0; image < s.batch; ++image) {
        const auto x = numbers_at(s, c.input(0).as<const T>(), channel, image);
        to += sum_of<W>(s.elements, [&](int64_t i) { return term(static_cast<W>(x.first[i * x.step])); });
      }
    };
    over_images(sum, [](W x) { return x; });
    const auto mean = static_cast<W>(sum / n);
    over_images(squares, [&](W x) { return (x - mean) * (x - mean); });
    const auto var = static_cast<W>(squares / n);
    c.output(1).as<W>()[channel] = mean;
    c.output(2).as<W>()[channel] = var;
    write_channel<T>(c, s, channel, line_of<W>(mean, var, s, c.input(1), c.input(2), channel), c.output());
  });
}

// --- the gradient: with g = dy where y was positive and z = (x - mean) / sqrt(var + eps),
// dx = weight / sqrt(var + eps) * (g - mean(g) - z * mean(g z))

// The operands of a task, which has one channel.
template <class T>
struct GradientChannel {
  using W = WideOf<T>;
  const KernelContext& c;
  const BatchNormShape& s;
  int64_t channel;
  W mean = static_cast<W>(number_of(c.input(2), channel));
  W inverse = static_cast<W>(1 / std::sqrt(number_of(c.input(3), channel) + s.eps));
  W weight = static_cast<W>(number_of(c.input(4), channel));
  W bias = static_cast<W>(s.relu && !s.has_addend ? number_of(c.input(5), channel) : 0);

  // Calls body(term) for each image, where term(i) returns z and g of its number i.
  template <class Body>
  void for_each_image(const Body& body) const {
    const Line<W> line = {mean, inverse * weight, bias};
    for (int64_t image = 0; image < s.batch; ++image) {
      const auto x = numbers_at(s, c.input(0).as<const T>(), channel, image),
                 dy = numbers_at(s, c.input(1).as<const T>(), channel, image);
      const auto y =
          s.reads_y() ? numbers_at(s, c.input(5).as<const T>(), channel, image) : Numbers<const T>();
      const auto more =
          s.two_gradients ? numbers_at(s, c.input(6).as<const T>(), channel, image) : Numbers<const T>();
      body(image, [=, this](int64_t i) {
        const auto value = static_cast<W>(x.first[i * x.step]);
        auto g = static_cast<W>(dy.first[i * dy.step]);
        if (more.first) g = static_cast<W>(static_cast<T>(g + static_cast<W>(more.first[i * more.step])));
        const bool passes = !s.relu || (y.first ? static_cast<W>(y.first[i * y.step]) : line(value)) > 0;
        return std::pair((value - mean) * inverse, passes ? g : W(0));
      });
    }
  }
};

void run_batch_norm_grad(const KernelContext& c) {
  const auto& s = c.prepared<BatchNormShape>();
  for_each_channel(s, [&]<class T>(TypeTag<T>, int64_t channel) {
    using W = WideOf<T>;
    const GradientChannel<T> from{c, s, channel};
    double g_sum = 0, gz_sum = 0;
    from.for_each_image([&](int64_t, const auto& term) {
      g_sum += sum_of<W>(s.elements, [&](int64_t i) { return term(i).second; });
      gz_sum += sum_of<W>(s.elements, [&](int64_t i) { return term(i).first * term(i).second; });
    });
    c.output(1).as<W>()[channel] = static_cast<W>(gz_sum);
    c.output(2).as<W>()[channel] = static_cast<W>(g_sum);
    const double n = static_cast<double>(s.numbers());
    const auto g_mean = static_cast<W>(g_sum / n), gz_mean = static_cast<W>(gz_sum / n);
    const W scale = from.weight * from.inverse;
    from.for_each_image([&](int64_t image, const auto& term) {
      const auto dx = numbers_at(s, c.output().as<T>(), channel, image);
      const auto of_addend = s.reads_y() ? numbers_at(s, c.output(3).as<T>(), channel, image) : Numbers<T>();
      for (int64_t i = 0; i < s.elements; ++i) {
        const auto [z, g] = term(i);
        dx.first[i * dx.step] = static_cast<T>(scale * (g - g_mean - z * gz_mean));
        if (of_addend.first) of_addend.first[i * of_addend.step] = static_cast<T>(g);
      }
    });
    if (s.with_output)
      write_channel<T>(c, s, channel,
                       line_of<W>(from.mean, static_cast<W>(number_of(c.input(3), channel)), s, c.input(4),
                                  c.input(5), channel),
                       c.output(3));
  });
}

constexpr OpKernel kKernels[] = {
    {"batch_norm", {.name = "channels", .run = run_batch_norm, .prepare = prepare_batch_norm}},
    {"batch_norm_grad", {.name = "channels", .run = run_batch_norm_grad, .prepare = prepare_batch_norm}},
};

}  // namespace

std::span<const OpKernel> batch_norm_kernels() { return kKernels; }

}  // namespace genesis::cpu
