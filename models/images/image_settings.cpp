#include "models/images/image_settings.h"

#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "schema/core/number_range.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::images {
namespace {

constexpr const char *kImageKey = "image", *kLabelsKey = "labels";
constexpr Range<int64_t> kSizes{1, 16384};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in{std::string(text)};
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

template <class T, size_t n>
T choice(const std::string& name, const std::string& value,
         const std::array<std::pair<const char*, T>, n>& choices) {
  std::vector<std::string> names;
  for (const auto& [text, chosen] : choices) {
    if (value == text) return chosen;
    names.emplace_back(text);
  }
  fail_setting("{}: expected {}", name, fmt::join(names, " or "));
}

constexpr std::array<std::pair<const char*, Fit>, 3> kFits = {
    {{"crop", Fit::kCrop}, {"stretch", Fit::kStretch}, {"pad", Fit::kPad}}};
constexpr std::array<std::pair<const char*, Filter>, 2> kFilters = {
    {{"bilinear", Filter::kBilinear}, {"bicubic", Filter::kBicubic}}};
constexpr std::array<std::pair<const char*, bool>, 2> kSwitch = {{{"on", true}, {"off", false}}};

std::vector<double> numbers_in(const std::string& name, const std::string& value,
                               const Range<double>& range) {
  std::vector<double> numbers;
  for (const std::string& part : split(value, '/'))
    numbers.push_back(number_or_fail<double>(name, part, range));
  if (numbers.size() != 1 && numbers.size() != 3)
    fail_setting("{}: expected one number, or three such as 0.485/0.456/0.406", name);
  return numbers;
}

void set_size(const std::string& name, const std::string& value, ImageSettings& settings) {
  const std::vector<std::string> sizes = split(value, 'x');
  if (sizes.empty() || sizes.size() > 2) fail_setting("{}: expected a size or HEIGHTxWIDTH", name);
  settings.height = number_or_fail<int64_t>(name, sizes[0], kSizes);
  settings.width = number_or_fail<int64_t>(name, sizes.back(), kSizes);
}

void set_one(const std::string& name, const std::string& key, const std::string& value,
             ImageSettings& settings) {
  if (key == "size")
    set_size(name, value, settings);
  else if (key == "resize")
    settings.resize = number_or_fail<int64_t>(name, value, kSizes);
  else if (key == "fit")
    settings.fit = choice(name, value, kFits);
  else if (key == "filter")
    settings.filter = choice(name, value, kFilters);
  else if (key == "mean")
    settings.mean = numbers_in(name, value, {});
  else if (key == "std")
    settings.std = numbers_in(name, value, {.least = 0, .without_least = true});
  else if (key == "augment")
    settings.augment = choice(name, value, kSwitch);
  else if (key == "min_area")
    settings.min_area = number_or_fail<double>(name, value, {.least = 0, .most = 1, .without_least = true});
  else if (key == "flip")
    settings.flip = number_or_fail<double>(name, value, {0, 1});
  else
    fail_setting(
        "{}: unknown key; there are size, resize, fit, filter, mean, std, augment, min_area and flip", name);
}

}  // namespace

ImageSettings parse_image_settings(std::string_view name, std::string_view text, ImageSettings settings) {
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string where = fmt::format("{} {}", name, part);
    if (equals == std::string::npos) fail_setting("{}: expected KEY=VALUE", where);
    set_one(where, part.substr(0, equals), part.substr(equals + 1), settings);
  }
  return settings;
}

std::string to_text(const ImageSettings& settings) {
  std::string text = fmt::format("size={}x{},fit={},filter={}", settings.height, settings.width,
                                 kFits[static_cast<size_t>(settings.fit)].first,
                                 kFilters[static_cast<size_t>(settings.filter)].first);
  if (settings.resize > 0) text += fmt::format(",resize={}", settings.resize);
  if (!settings.mean.empty()) text += fmt::format(",mean={}", fmt::join(settings.mean, "/"));
  if (!settings.std.empty()) text += fmt::format(",std={}", fmt::join(settings.std, "/"));
  return text;
}

ImageSettings image_settings_of(const Model& model) {
  const auto at = model.metadata.find(kImageKey);
  return at == model.metadata.end() ? ImageSettings{}
                                    : parse_image_settings("the model's metadata 'image'", at->second);
}

void set_image_settings(Metadata& metadata, const ImageSettings& settings) {
  metadata[kImageKey] = to_text(settings);
}

std::vector<std::string> labels_of(const Model& model) {
  const auto at = model.metadata.find(kLabelsKey);
  if (at == model.metadata.end()) return {};
  const auto list = try_parse_json_text(at->second);
  std::vector<std::string> labels;
  if (!list.is_array()) return labels;
  for (const auto& label : list)
    if (label.is_string()) labels.push_back(label.get<std::string>());
  return labels.size() == list.size() ? labels : std::vector<std::string>();
}

void set_labels(Metadata& metadata, const std::vector<std::string>& labels) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // bytes that are no UTF-8
  metadata[kLabelsKey] = nlohmann::json(labels).dump(-1, ' ', false, kReplace);
}

std::vector<std::string> read_labels(const std::string& file) {
  std::vector<std::string> labels = split(read_whole_file(file, 64 << 20), '\n');
  for (std::string& label : labels)
    if (label.ends_with('\r')) label.pop_back();
  return labels;
}

}  // namespace genesis::images
