// Pictures as inputs of models: which inputs take pictures, and their values.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "executor/named_tensors.h"
#include "models/images/image_settings.h"
#include "models/images/picture.h"
#include "schema/graph/graph.h"

namespace genesis::images {

// An input [batch, channels, height, width], or [batch, height, width, channels], with 1 or 3 channels, of a real dtype or u8. One
// channel is the brightness, as Pillow's convert("L") computes it. Bytes of u8 are the picture's own, without normalization.
struct ImageInput {
  std::string name;
  DType dtype = DType::f32;
  int64_t batch = 0;  // 0: open
  int64_t channels = 3, height = 0, width = 0;
  bool channels_last = false;
};
// Returns the input; empty if it does not take pictures. An open height or width is that of the settings.
std::optional<ImageInput> image_input(const ValueInfo& input, const ImageSettings& settings);

// Return the picture in the input's size: as the settings say, or a random part of it, which depends only on the seed, the epoch and
// the number of the picture.
Picture prepared(const Picture& picture, const ImageInput& input, const ImageSettings& settings);
Picture augmented(const Picture& picture, const ImageInput& input, const ImageSettings& settings,
                  uint64_t seed, uint32_t epoch, uint64_t number);

// Returns `count` pictures as the value of the input. Calls picture(i) on all cores at once; an empty picture gives zeros.
Tensor pictures_tensor(const ImageInput& input, const ImageSettings& settings, int64_t count,
                       const std::function<Picture(int64_t)>& picture);

// The values by name of the image inputs among requests NAME=FILE, which are taken out of the list. Several files, separated by
// commas, are a batch. Throws Error for a picture that cannot be read, or given for an input that takes none.
NamedTensors take_picture_inputs(const Graph& entry, const ImageSettings& settings,
                                 std::vector<std::string>& requests);

struct ClassScore {
  int64_t index;
  double probability;
};
// Returns the `count` most probable classes, best first. Scores that are no probabilities already are taken for logits. Empty if
// a score is NaN or infinity.
std::vector<ClassScore> best_classes(const std::vector<double>& scores, size_t count);

}  // namespace genesis::images
