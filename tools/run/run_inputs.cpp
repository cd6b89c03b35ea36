#include "tools/run/run_inputs.h"

#include <algorithm>

#include "models/images/image_input.h"
#include "models/images/read_picture.h"
#include "passes/distribution/rank_sizes.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"

namespace genesis::tools {

void InputFlags::add_to(Command& app) {
  app.add_option("--input", inputs,
                 "NAME=FILE.npy, NAME=FILE.safetensors, FILE.safetensors, NAME=PICTURE.jpg or .png (a batch: "
                 "NAME=A.jpg,B.png), NAME=random, NAME=zeros or NAME=full:VALUE")
      ->take_all();
  app.add_option(
      "--image", image,
      "how pictures are prepared, as KEY=VALUE,...: size=HEIGHTxWIDTH, resize, fit=crop, stretch or pad, "
      "filter=bilinear or bicubic, mean=R/G/B, std=R/G/B; default: as the model was trained, or as "
      "torchvision "
      "prepares pictures of ImageNet");
  app.add_option("--size", sizes, "SYMBOL=SIZE for inputs made here, such as batch=8")->take_all();
  seed_option = add_number(app, "--seed", seed, "seed of random inputs");
}

bool InputFlags::names_picture() const {
  return std::ranges::any_of(inputs, [](const auto& input) { return images::has_picture_name(input); });
}

NamedTensors InputFlags::make(const Graph& graph, const Mesh& mesh,
                              std::vector<std::string>* invented) const {
  const images::ImageSettings settings =
      images::parse_image_settings("--image", image, images::image_settings_of(graph.model()));
  if (!image.empty() && !names_picture())
    fail_usage("--image does nothing: no --input names a .jpg or .png file");
  std::vector<std::string> others = inputs;
  NamedTensors pictures = images::take_picture_inputs(graph, settings, others);
  MadeInputs made = make_inputs(graph, {.inputs = others,
                                        .sizes = passes::sizes_of_rank(graph, parse_sizes(sizes), mesh),
                                        .seed = seed,
                                        .given = std::move(pictures)});
  if (seed_option->count() > 0 && !made.used_seed)
    fail_usage("--seed does nothing: no input of entry point '{}' is random", graph.name());
  if (invented) *invented = std::move(made.invented);
  return std::move(made.tensors);
}

std::string sizes_line(const std::string& entry, const Bindings& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", symbol, size);
  if (text.empty()) return "";
  return printable(fmt::format("{} with {} (--size {}=N gives others)", entry, text, sizes.begin()->first)) +
         "\n";
}

}  // namespace genesis::tools
