#include "models/images/image_input.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/images/read_picture.h"
#include "schema/core/error.h"
#include "schema/core/parallel.h"
#include "schema/core/philox.h"

namespace genesis::images {
namespace {

constexpr uint8_t kGray = 114;

// Rounds halves to the even number, as Python does.
int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

Box whole(const Picture& picture) { return {0, 0, picture.width, picture.height}; }

Picture center_cropped(const Picture& picture, const ImageInput& input, const ImageSettings& settings) {
  const int64_t crop = std::max(input.height, input.width);
  const int64_t side = settings.resize > 0 ? settings.resize : rounded(static_cast<double>(crop) * 256 / 224);
  const int64_t shorter = std::min(picture.width, picture.height);
  const int64_t width = picture.width == shorter ? side : side * picture.width / shorter,
                height = picture.height == shorter ? side : side * picture.height / shorter;
  if (width > kMaxPixels / height)
    fail("a picture of {} x {} pixels is too long to be resized to {} pixels at its shorter side",
         picture.width, picture.height, side);
  const Picture small = resized(picture, whole(picture), width, height, settings.filter);
  return cropped(small, {rounded(static_cast<double>(width - input.width) / 2),
                         rounded(static_cast<double>(height - input.height) / 2), input.width, input.height});
}

Picture padded(const Picture& picture, const ImageInput& input, Filter filter) {
  const double scale = std::min(static_cast<double>(input.width) / static_cast<double>(picture.width),
                                static_cast<double>(input.height) / static_cast<double>(picture.height));
  const auto size = [&](int64_t before, int64_t most) {
    return std::clamp<int64_t>(rounded(static_cast<double>(before) * scale), 1, most);
  };
  const int64_t width = size(picture.width, input.width), height = size(picture.height, input.height);
  const Picture small = resized(picture, whole(picture), width, height, filter);
  return cropped(small, {-(input.width - width) / 2, -(input.height - height) / 2, input.width, input.height},
                 kGray);
}

// Uniform numbers of one picture in one epoch.
class Draws {
 public:
  Draws(uint64_t seed, uint32_t epoch, uint64_t number) : seed_(seed), number_(number), epoch_(epoch) {}
  double uniform(double low, double high) {
    if (next_ % 4 == 0) block_ = philox(seed_, kStream + next_ / 4, epoch_, number_);
    return low + (high - low) * static_cast<double>(uniform_from(block_.word[next_++ % 4]));
  }
  int64_t below(int64_t end) {
    return std::min(static_cast<int64_t>(uniform(0, 1) * static_cast<double>(end)), end - 1);
  }

 private:
  static constexpr uint32_t kStream = 0x696d6167;  // apart from the streams of other users of the seed
  uint64_t seed_, number_;
  uint32_t epoch_, next_ = 0;
  PhiloxBlock block_ = {};
};

// Draws the part of torchvision's RandomResizedCrop.
Box random_part(const Picture& picture, double min_area, Draws& draws) {
  constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;
  const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = width * height * draws.uniform(min_area, 1);
    const double ratio = std::exp(draws.uniform(std::log(kNarrowest), std::log(kWidest)));
    const int64_t w = rounded(std::sqrt(area * ratio)), h = rounded(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > picture.width || h > picture.height) continue;
    const int64_t top = draws.below(picture.height - h + 1), left = draws.below(picture.width - w + 1);
    return {left, top, w, h};
  }
  Box box = whole(picture);
  if (width / height < kNarrowest) box.height = rounded(width / kNarrowest);
  if (width / height > kWidest) box.width = rounded(height * kWidest);
  return {(picture.width - box.width) / 2, (picture.height - box.height) / 2, box.width, box.height};
}

// The value of each byte in one channel, in f32 as torchvision computes it.
std::array<float, 256> values_of(const ImageInput& input, const ImageSettings& settings, int64_t channel) {
  static constexpr double kMean[] = {0.485, 0.456, 0.406}, kStd[] = {0.229, 0.224, 0.225};
  const auto number = [&](const std::vector<double>& given, double standard) {
    if (given.empty()) return static_cast<float>(standard);
    return static_cast<float>(given[given.size() == 1 ? 0 : static_cast<size_t>(channel)]);
  };
  const bool has_colors = input.channels == 3;
  const float mean = number(settings.mean, has_colors ? kMean[channel] : 0),
              std = number(settings.std, has_colors ? kStd[channel] : 1);
  std::array<float, 256> values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i) / 255.0f - mean) / std;
  return values;
}

uint8_t byte_at(const uint8_t* rgb, int64_t channel, bool has_colors) {
  if (has_colors) return rgb[channel];
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// Writes value(channel, byte) of each element of the picture.
template <class T, class ValueOf>
void write_picture(const Picture& picture, const ImageInput& input, T* to, const ValueOf& value) {
  const int64_t pixels = input.height * input.width, channels = input.channels;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < pixels; ++i)
      to[input.channels_last ? i * channels + c : c * pixels + i] =
          value(c, byte_at(&picture.rgb[static_cast<size_t>(i * 3)], c, channels == 3));
}

bool is_known(const Dim& dim, int64_t size) { return dim.is_constant() && dim.value() == size; }

}  // namespace

std::optional<ImageInput> image_input(const ValueInfo& input, const ImageSettings& settings) {
  const auto& [dtype, shape] = input.type;
  if (shape.rank() != 4 || (!is_float(dtype) && dtype != DType::u8)) return std::nullopt;
  const auto has_channels = [&](int axis) { return is_known(shape[axis], 3) || is_known(shape[axis], 1); };
  if (!has_channels(1) && !has_channels(3)) return std::nullopt;
  const bool last = !has_channels(1);
  const Dim &channels = shape[last ? 3 : 1], &height = shape[last ? 1 : 2], &width = shape[last ? 2 : 3];
  return ImageInput{.name = input.name,
                    .dtype = dtype,
                    .batch = shape[0].is_constant() ? shape[0].value() : 0,
                    .channels = channels.value(),
                    .height = height.is_constant() ? height.value() : settings.height,
                    .width = width.is_constant() ? width.value() : settings.width,
                    .channels_last = last};
}

Picture prepared(const Picture& picture, const ImageInput& input, const ImageSettings& settings) {
  if (settings.fit == Fit::kStretch)
    return resized(picture, whole(picture), input.width, input.height, settings.filter);
  if (settings.fit == Fit::kPad) return padded(picture, input, settings.filter);
  return center_cropped(picture, input, settings);
}

Picture augmented(const Picture& picture, const ImageInput& input, const ImageSettings& settings,
                  uint64_t seed, uint32_t epoch, uint64_t number) {
  if (!settings.augment) return prepared(picture, input, settings);
  Draws draws(seed, epoch, number);
  const bool flips = draws.uniform(0, 1) < settings.flip;
  const Box part = random_part(picture, settings.min_area, draws);
  Picture result = resized(picture, part, input.width, input.height, settings.filter);
  return flips ? mirrored(result) : result;
}

Tensor pictures_tensor(const ImageInput& input, const ImageSettings& settings, int64_t count,
                       const std::function<Picture(int64_t)>& picture) {
  const Shape shape = input.channels_last ? Shape{count, input.height, input.width, input.channels}
                                          : Shape{count, input.channels, input.height, input.width};
  const bool is_bytes = input.dtype == DType::u8;
  std::byte* data;
  const Tensor tensor = Tensor::uninitialized({is_bytes ? DType::u8 : DType::f32, shape}, &data);
  const int64_t elements = input.channels * input.height * input.width;
  std::array<std::array<float, 256>, 3> values;
  for (int64_t c = 0; c < input.channels; ++c) values[static_cast<size_t>(c)] = values_of(input, settings, c);
  in_parallel(count, 1, [&](int64_t i, int64_t) {
    const Picture one = picture(i);
    auto* bytes = reinterpret_cast<uint8_t*>(data) + i * elements;
    float* reals = reinterpret_cast<float*>(data) + i * elements;
    if (one.rgb.empty() && is_bytes)
      std::fill_n(bytes, elements, uint8_t{0});
    else if (one.rgb.empty())
      std::fill_n(reals, elements, 0.0f);
    else if (is_bytes)
      write_picture(one, input, bytes, [](int64_t, uint8_t byte) { return byte; });
    else
      write_picture(one, input, reals,
                    [&](int64_t c, uint8_t byte) { return values[static_cast<size_t>(c)][byte]; });
  });
  return is_bytes || input.dtype == DType::f32 ? tensor : tensor.to(input.dtype);
}

std::vector<ClassScore> best_classes(const std::vector<double>& scores, size_t count) {
  double sum = 0, largest = -INFINITY, smallest = INFINITY;
  for (const double score : scores) {
    if (std::isnan(score) || score == INFINITY) return {};  // NaN has no order, and infinity no share
    sum += score;
    largest = std::max(largest, score), smallest = std::min(smallest, score);
  }
  const bool are_probabilities = smallest >= 0 && std::abs(sum - 1) < 1e-3;
  std::vector<ClassScore> classes;
  double total = 0;
  for (const double score : scores) {
    classes.push_back({std::ssize(classes), are_probabilities ? score : std::exp(score - largest)});
    total += classes.back().probability;
  }
  count = std::min(count, classes.size());
  std::partial_sort(classes.begin(), classes.begin() + static_cast<std::ptrdiff_t>(count), classes.end(),
                    [](const ClassScore& a, const ClassScore& b) {
                      return a.probability != b.probability ? a.probability > b.probability
                                                            : a.index < b.index;
                    });
  classes.resize(count);
  for (ClassScore& one : classes) one.probability /= total;
  return classes;
}

}  // namespace genesis::images
