// Finds pictures among requests for inputs, NAME=FILE, and reads them.
#include <algorithm>
#include <sstream>

#include "models/images/image_input.h"
#include "models/images/read_picture.h"
#include "schema/core/error.h"

namespace genesis::images {
namespace {

// Returns the files of a request; empty if they are no pictures.
std::vector<std::string> pictures_of(const std::string& files) {
  std::vector<std::string> names;
  std::istringstream in(files);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  if (!std::ranges::all_of(names, [](const std::string& name) { return has_picture_name(name); })) return {};
  return names;
}

Tensor read_batch(const ValueInfo& input, const ImageSettings& settings, std::vector<std::string> files) {
  const auto taken = image_input(input, settings);
  if (!taken)
    fail(
        "the input '{}' takes no pictures: it is {}, and one that does is [batch, 3, height, width], or with "
        "the channels last, "
        "of a real dtype or u8; 1 channel is gray",
        input.name, input.type.to_string());
  if (taken->batch > 1 && files.size() == 1)
    fail("the input '{}' takes a batch of {} pictures: name as many, separated by commas", input.name,
         taken->batch);
  return pictures_tensor(*taken, settings, std::ssize(files), [&](int64_t i) {
    return prepared(read_picture(files[static_cast<size_t>(i)]), *taken, settings);
  });
}

}  // namespace

NamedTensors take_picture_inputs(const Graph& entry, const ImageSettings& settings,
                                 std::vector<std::string>& requests) {
  NamedTensors tensors;
  std::erase_if(requests, [&](const std::string& request) {
    const size_t equals = request.find('=');
    if (equals == std::string::npos) return false;
    const std::vector<std::string> files = pictures_of(request.substr(equals + 1));
    const std::string name = request.substr(0, equals);
    const auto input =
        std::ranges::find(entry.inputs(), name, [&](ValueId id) { return entry.value(id).name; });
    if (files.empty() || input == entry.inputs().end()) return false;
    if (!tensors.emplace(name, read_batch(entry.value(*input), settings, files)).second)
      fail("--input {}: '{}' is given twice", request, name);
    return true;
  });
  return tensors;
}

}  // namespace genesis::images
