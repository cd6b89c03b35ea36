#include "executor/generation/entry_points.h"

#include <algorithm>
#include <limits>

#include "schema/core/error.h"
#include "schema/graph/caches.h"

namespace genesis::generation {
namespace {

std::string with_features(const std::string& entry, const SamplingFeatures& features) {
  return entry + (features.penalties ? "_with_penalties" : "") + (features.typical ? "_and_typical" : "") +
         (features.logprobs ? "_and_logprobs" : "");
}

}  // namespace

std::string prefill_name(const SamplingFeatures& features) {
  return with_features("prefill_and_sample", features);
}
std::string decode_name(const SamplingFeatures& features) {
  return with_features("decode_and_sample", features);
}

std::string first_rows_suffix(int64_t rows) { return "_first_" + std::to_string(rows); }

std::string verify_name(int64_t tokens) { return "verify_" + std::to_string(tokens); }

const Graph& found_entry(const Model& model, const char* name) {
  const Graph* entry = model.find_entry(name);
  if (!entry) fail("the model has no entry point '{}': it cannot generate text", name);
  return *entry;
}

int64_t rows_of_cache(const Model& model) {
  const Graph& decode = found_entry(model, "decode");
  if (const std::optional<CacheSize> cache = cache_size(model)) return cache->rows;
  const auto& inputs = decode.inputs();
  const Shape shape = inputs.empty() ? Shape{} : decode.type(inputs[0]).shape;
  return shape.rank() == 2 && shape[0].is_constant() ? shape[0].value() : 1;
}

int64_t positions_of_cache(const Model& model) {
  const std::optional<CacheSize> cache = cache_size(model);
  return cache ? cache->positions : std::numeric_limits<int64_t>::max();
}

int64_t adapters_of(const Model& model) {
  const auto count = model.metadata.find(kAdapters);
  return count == model.metadata.end() ? 0 : std::stoll(count->second);
}

bool takes_text_length(const Model& model) {
  const Graph& prefill = found_entry(model, "prefill");
  return std::ranges::any_of(prefill.inputs(),
                             [&](ValueId input) { return prefill.value(input).name == "text_length"; });
}

int64_t vocabulary_of(const Graph& entry, int rank) {
  for (const NamedValue& output : entry.outputs())
    if (const Shape& shape = entry.type(output.value).shape; output.name == "logits" && shape.rank() == rank)
      return shape[rank - 1].value();
  fail("the entry point '{}' has no output 'logits' with {} sizes, the last of them the vocabulary",
       entry.name(), rank);
}

}  // namespace genesis::generation
