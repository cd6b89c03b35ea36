#include "models/load_weights.h"

#include "executor/state_dict.h"
#include "passes/core/name_patterns.h"
#include "schema/core/error.h"
#include "schema/file/other_formats/safetensors.h"

namespace genesis::models {
namespace {

// Buffers of torch that a model here does not need.
bool is_needless(const std::string& name) {
  return name.ends_with(".num_batches_tracked") || name.ends_with(".relative_position_index");
}

}  // namespace

void load_weights(Model& model, const std::string& file, const std::vector<std::string>& ignored) {
  NamedTensors tensors = read_safetensors(file).tensors;
  std::erase_if(tensors, [&](const auto& tensor) {
    return is_needless(tensor.first) || passes::matches_any(ignored, tensor.first);
  });
  for (const auto& [name, initial] : state_dict(model))
    if (passes::matches_any(ignored, name)) tensors.emplace(name, initial);
  with_context(
      [&] {
        load_whole_state_dict(model, tensors,
                              "; --ignore-extra PATTERN leaves weights out, which keep their initial values");
      },
      [&] { return "in the weights of " + file; });
}

}  // namespace genesis::models
