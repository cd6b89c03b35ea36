#include "models/jobs/image_data.h"

#include <algorithm>

#include "models/data/image_folder.h"
#include "models/images/image_settings.h"
#include "models/images/read_picture.h"
#include "schema/core/setting_error.h"
#include "schema/messages/log.h"

namespace genesis::jobs {
namespace {

using images::ImageInput;
using images::ImageSettings;

std::string inputs_of(const Graph& entry) {
  std::string text;
  for (const ValueId id : entry.inputs())
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.value(id).name, entry.type(id).to_string());
  return text;
}

// Finds the inputs that take the pictures and their classes.
data::ImageBatches batches_of(const Graph& entry, const ImageSettings& settings) {
  std::vector<ImageInput> pictures;
  std::vector<std::string> targets;
  for (const ValueId id : entry.inputs()) {
    if (auto input = images::image_input(entry.value(id), settings)) pictures.push_back(*input);
    const TensorType& type = entry.type(id);
    if (type.dtype == DType::i64 && type.shape.rank() == 1) targets.push_back(entry.value(id).name);
  }
  if (pictures.size() != 1 || targets.size() != 1 || entry.inputs().size() != 2)
    fail(
        "pictures in folders of classes train an entry point with one input of pictures, [batch, 3, height, "
        "width], and one of classes, i64[batch]; '{}' takes {} (genesis-opt FILE --train OPTIMIZER --loss "
        "cross_entropy makes one from a program)",
        entry.name(), inputs_of(entry));
  return {.input = pictures[0], .target = targets[0], .settings = settings};
}

// Refuses more classes than the model tells apart.
void check_classes(const Model& model, int64_t classes) {
  const Graph* forward = model.find_entry("forward");
  if (!forward) return;
  for (const NamedValue& output : forward->outputs()) {
    const Shape& shape = forward->type(output.value).shape;
    if (shape.rank() != 2 || !shape[1].is_constant() || shape[1].value() >= classes) continue;
    fail("there are {} classes of pictures, and the model tells {} apart (its output '{}' is {})", classes,
         shape[1].value(), output.name, forward->type(output.value).to_string());
  }
}

void leave_out_bad(data::ImageFolder& folder) {
  const std::vector<std::string> problems = data::leave_out_bad_pictures(folder);
  if (problems.empty()) return;
  log_warning("{} pictures cannot be read and are left out; the first: {}", problems.size(), problems[0]);
}

// Numbers the classes as the model does, if it knows all of them; returns whether it does.
bool number_as_model(data::ImageFolder& folder, const Model& model, bool must_know) {
  const std::vector<std::string> labels = images::labels_of(model);
  const auto is_known = [&](const std::string& name) {
    return std::ranges::find(labels, name) != labels.end();
  };
  if (labels.empty() || (!must_know && !std::ranges::all_of(folder.classes, is_known))) return false;
  data::number_classes(folder, labels);
  return true;
}

}  // namespace

bool is_image_data(const std::vector<std::string>& names) {
  const auto found =
      std::ranges::find_if(names, [](const auto& name) { return data::is_image_folder(name); });
  if (found == names.end()) return false;
  if (names.size() > 1)
    fail("'{}' is a folder of classes of pictures, and other data are given beside it: give one such folder",
         *found);
  return true;
}

TrainData open_image_data(const std::string& folder_name, const Model& model,
                          const data::SourceOptions& options, const DataRequest& request) {
  if (const std::string why = images::why_no_pictures(); !why.empty()) fail("{}", why);
  if (request.text.holdout > 0)
    fail_setting("--holdout does nothing with pictures: name a folder with --eval-data");
  if (!request.text.token_cache.empty()) fail_setting("--token-cache does nothing with pictures");
  const ImageSettings settings =
      images::parse_image_settings("--image", request.image, images::image_settings_of(model));
  const data::ImageBatches batches = batches_of(model.entry(request.entry), settings);
  data::ImageFolder folder = data::list_image_folder(folder_name);
  const size_t classes = folder.classes.size();
  TrainData data;
  if (!number_as_model(folder, model, options.fill_last)) images::set_labels(data.metadata, folder.classes);
  check_classes(model, 1 + *std::ranges::max_element(folder.labels));
  if (request.text.skip_bad) leave_out_bad(folder);
  images::set_image_settings(data.metadata, settings);
  if (!request.quiet) log_info("{} pictures of {} classes in {}", folder.files.size(), classes, folder_name);
  data.training = data::image_source(std::move(folder), batches, options);
  return data;
}

}  // namespace genesis::jobs
