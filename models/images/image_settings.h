// Settings of the way from pictures to inputs of a model: sizes, cropping, normalization. A model's metadata keep them
// ("image"), so that a model reads pictures as it was trained to. The standard settings are torchvision's for models of ImageNet.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/images/picture.h"
#include "schema/graph/model.h"

namespace genesis::images {

using Metadata = std::map<std::string, std::string>;  // metadata of a model

enum class Fit : uint8_t {
  kCrop,     // resize so that the shorter side is `resize`, then cut out the center
  kStretch,  // resize both axes to the input's, whatever the proportions
  kPad,      // resize as far as the picture fits, and surround it by gray (114), as YOLO does
};

struct ImageSettings {
  int64_t height = 224, width = 224;  // for an input whose own size is open
  int64_t resize = 0;                 // Fit::kCrop; 0: 256/224 of the input's longer side
  Fit fit = Fit::kCrop;
  Filter filter = Filter::kBilinear;
  // One number per channel, or one for all; a value is (byte / 255 - mean) / std. Empty: of ImageNet for three channels, 0 and 1
  // for one channel.
  std::vector<double> mean = {}, std = {};
  // Training: a random part with at least this share of the area and a width of 3/4 to 4/3 of its height is resized to the input
  // (torchvision's RandomResizedCrop), and mirrored with this probability. Without `augment` pictures are prepared as for inference.
  bool augment = true;
  double min_area = 0.08, flip = 0.5;
};

// Changes settings by a text KEY=VALUE,...: size=224 or size=HEIGHTxWIDTH, resize=256, fit=crop|stretch|pad,
// filter=bilinear|bicubic, mean=0.485/0.456/0.406, std=..., augment=on|off, min_area=0.08, flip=0.5. Throws SettingError that begins
// with `name` for anything else.
ImageSettings parse_image_settings(std::string_view name, std::string_view text, ImageSettings settings = {});
// Returns the settings of inference as such a text.
std::string to_text(const ImageSettings& settings);

// The settings that the model's metadata have, or the standard ones.
ImageSettings image_settings_of(const Model& model);
void set_image_settings(Metadata& metadata, const ImageSettings& settings);

// The names of classes, by class, in the metadata of models that were trained on a folder of classes ("labels", a JSON list); empty:
// the model knows none.
std::vector<std::string> labels_of(const Model& model);
void set_labels(Metadata& metadata, const std::vector<std::string>& labels);
// Reads names of classes from a file, one a line.
std::vector<std::string> read_labels(const std::string& file);

}  // namespace genesis::images
