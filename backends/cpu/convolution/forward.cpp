#include "backends/cpu/convolution/implementations.h"
#include "backends/cpu/convolution/operands.h"
#include "backends/cpu/convolution/tap_product.h"
#include "backends/cpu/parallel/task_scratch.h"

namespace genesis::cpu {
namespace {

struct Forward {
  ConvolutionShape shape;
  TapProduct product = {};
  int64_t chunk = 1;  // images at a time
  int64_t planes = 0, weights = 0, scale = 0, bias = 0, addend = 0, y = 0, bytes = 0;

  int64_t result_size() const { return shape.out() * product.positions(); }
};

Forward forward_of(const KernelQuery& query) {
  Forward f{.shape = convolution_shape(query)};
  const ConvolutionShape& s = f.shape;
  f.product = tap_product_of(s);
  const PlaneLayout& layout = f.product.layout;
  f.chunk = images_at_once(s.batch, s.in(), layout);
  ScratchCut cut;
  f.weights = cut.take_unless_f32(s.dtype, CheckedSize(s.out()) * s.depth());
  f.scale = cut.take_unless_f32(s.dtype, s.out());
  f.bias = cut.take_unless_f32(s.dtype, s.out());
  const CheckedSize result = CheckedSize(s.batch) * f.result_size();
  f.addend = s.has_addend ? cut.take_unless_f32(s.dtype, result) : 0;
  f.y = cut.take_unless_f32(s.dtype, result);
  f.planes = cut.bytes();
  f.bytes = cut.bytes();
  return f;
}

Forward tiled_forward(const KernelQuery& query) {
  Forward f = forward_of(query);
  ScratchCut planes;
  if (!f.product.is_exact)
    planes.take(CheckedSize(f.chunk) * f.shape.in() * f.product.layout.channel() + kPlaneSlack);
  f.bytes += planes.bytes();
  return f;
}

Epilogue epilogue_of(const Forward& f, const KernelContext& c) {
  const ConvolutionShape& s = f.shape;
  Epilogue epilogue{.activation = s.activation};
  if (s.has_scale) epilogue.scale = as_floats(c.input(2), c.scratch, f.scale);
  if (s.has_bias) epilogue.bias = as_floats(c.input(static_cast<int>(s.bias_input())), c.scratch, f.bias);
  if (s.has_addend)
    epilogue.addend = as_floats(c.input(static_cast<int>(s.addend_input())), c.scratch, f.addend);
  return epilogue;
}

float* result_of(const Forward& f, const KernelContext& c) {
  return f.shape.dtype == DType::f32 ? c.output().as<float>() : floats_at(c.scratch, f.y);
}

void run_tiles(const KernelContext& c) {
  const auto& f = c.prepared<Forward>();
  const ConvolutionShape& s = f.shape;
  const float* weights = as_floats(c.input(1), c.scratch, f.weights);
  const Epilogue epilogue = epilogue_of(f, c);
  float* y = result_of(f, c);
  const auto* x = c.input(0).as<const std::byte>();
  const int64_t image_bytes = c.input(0).bytes() / s.batch;
  for (int64_t image = 0; image < s.batch; image += f.chunk) {
    const int64_t images = std::min(f.chunk, s.batch - image), to = image * f.result_size();
    const float* planes = reinterpret_cast<const float*>(x + image * image_bytes);
    if (!f.product.is_exact) {
      float* made = floats_at(c.scratch, f.planes);
      split_images(f.product.layout, s.dtype, x + image * image_bytes, images * s.in(), 0, made);
      planes = made;
    }
    run_tap_product(f.product, weights, planes, images, y + to, epilogue.behind(0, to));
  }
  write_result(y, c.output());
}

// --- depthwise: an output channel is a sum of shifted planes of one input channel

constexpr int64_t kRowBuffer = 4096;  // sums that a task computes at a time

int64_t plane_bytes(const Forward& f) {
  return (CheckedSize(f.product.layout.channel()) + kPlaneSlack).value() * 4;
}

Forward depthwise_forward(const KernelQuery& query) {
  Forward f = forward_of(query);
  f.bytes += TaskScratch::bytes_for(f.shape.batch * f.shape.groups, plane_bytes(f));
  return f;
}

// Computes one output channel, some rows at a time; `epilogue` is that of the channel.
void sum_planes(const Forward& f, const TileFunctions& tile, const float* planes, const float* weights,
                float* y, const Epilogue& epilogue) {
  alignas(64) float sums[kRowBuffer + 2 * kPlaneSlack];
  const auto& [outer, middle, inner] = f.product.layout.axis;
  const int64_t pitch = inner.extent, rows = std::max<int64_t>(1, kRowBuffer / pitch);
  for (int64_t z = 0; z < outer.positions; ++z)
    for (int64_t row = 0; row < middle.positions; row += rows) {
      const int64_t some = std::min(rows, middle.positions - row);
      const int64_t width = std::min(inner.positions, kRowBuffer);  // a row may be longer than the buffer
      for (int64_t x = 0; x < inner.positions; x += width) {
        const int64_t n = std::min(width, inner.positions - x);
        tile.sum(planes + (z * middle.extent + row) * pitch + x, f.product.taps, weights,
                 (some - 1) * pitch + n, sums);
        for (int64_t i = 0; i < some; ++i) {
          const int64_t at = ((z * middle.positions) + row + i) * inner.positions + x;
          tile.finish(sums + i * pitch, epilogue.behind(0, at), n, y + at);
        }
      }
    }
}

void run_depthwise(const KernelContext& c) {
  const auto& f = c.prepared<Forward>();
  const ConvolutionShape& s = f.shape;
  const TileFunctions tile = tile_functions();
  const float* weights = as_floats(c.input(1), c.scratch, f.weights);
  const Epilogue epilogue = epilogue_of(f, c);
  float* y = result_of(f, c);
  const auto* x = c.input(0).as<const std::byte>();
  const int64_t channels = s.batch * s.groups, channel_bytes = c.input(0).bytes() / channels;
  TaskScratch scratch(c.scratch + f.planes, channels, plane_bytes(f));
  parallel_rows(channels, f.product.layout.channel() * 4, [&](int64_t first, int64_t last) {
    scratch.with([&](std::byte* buffer) {
      auto* planes = reinterpret_cast<float*>(buffer);
      for (int64_t i = first; i < last; ++i) {
        split_channel(f.product.layout, s.dtype, x + i * channel_bytes, 0, planes);
        for (int64_t o = 0; o < s.out_each; ++o) {
          const int64_t row = i % s.groups * s.out_each + o,
                        to = (i * s.out_each + o) * f.product.positions();
          sum_planes(f, tile, planes, weights + row * s.depth(), y + to, epilogue.behind(row, to));
        }
      }
    });
  });
  write_result(y, c.output());
}

std::optional<std::string> depthwise_declines(const KernelQuery& query) {
  if (convolution_shape(query).in_each != 1) return "takes one input channel in each group";
  return tiles_decline(query);
}

template <Forward (*make)(const KernelQuery&)>
KernelImpl implementation(std::string_view name, void (*run)(const KernelContext&),
                          std::optional<std::string> (*declines)(const KernelQuery&)) {
  return {.name = name,
          .run = run,
          .can_run = declines,
          .scratch_bytes = [](const KernelQuery& query) { return make(query).bytes; },
          .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
            return std::make_shared<Forward>(make(query));
          }};
}

}  // namespace

std::optional<std::string> tiles_decline(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (s.dtype == DType::f64) return "takes f32, bf16 and f16";
  if (s.activation > ConvolutionActivation::kHardswish) return "takes activations up to hardswish";
  if (s.channels_last) return "takes channels before the spatial axes";
  if (s.batch * s.in() * s.out() * s.windows.elements() == 0) return "takes tensors with elements";
  return std::nullopt;
}

KernelImpl tiled_convolution() { return implementation<tiled_forward>("tiles", run_tiles, tiles_decline); }
KernelImpl depthwise_convolution() {
  return implementation<depthwise_forward>("depthwise", run_depthwise, depthwise_declines);
}

}  // namespace genesis::cpu
