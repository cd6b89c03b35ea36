#include "tools/run/run_inputs.h"

#include "passes/distribution/rank_sizes.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"

namespace genesis::tools {

void InputFlags::add_to(Command& app) {
  app.add_option(
         "--input", inputs,
         "NAME=FILE.npy, NAME=FILE.safetensors, FILE.safetensors, NAME=random, NAME=zeros or NAME=full:VALUE")
      ->take_all();
  app.add_option("--size", sizes, "SYMBOL=SIZE for inputs made here, such as batch=8")->take_all();
  seed_option = add_number(app, "--seed", seed, "seed of random inputs");
}

NamedTensors InputFlags::make(const Graph& graph, const Mesh& mesh,
                              std::vector<std::string>* invented) const {
  MadeInputs made =
      make_inputs(graph, {inputs, passes::sizes_of_rank(graph, parse_sizes(sizes), mesh), seed});
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
