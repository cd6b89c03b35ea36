#include "models/formats/hugging_face/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

// Entries of any model that do not change what it computes: where it came from, its class, special tokens, dropout, output
// options, and the settings of generation that older versions of transformers kept here. At most one `*` matches any text.
constexpr std::string_view kWithoutEffect[] = {
    "_*", "architectures", "attn_implementation", "auto_map", "base_model*", "eos_token", "bos_token",
    "quantization_config", "compression_config", "pad_token", "unk_token", "*_token_id", "*dropout*",
    "*_pdrop", "finetuning_task", "gradient_checkpointing", "id2label", "initializer_range", "is_decoder",
    "is_llama_config", "label2id", "model_max_length", "max_sequence_length", "seq_length", "max_seq_len",
    "name_or_path", "num_labels", "output_attentions", "output_hidden_states", "output_past",
    "output_router_logits", "output_scores", "pretraining_tp", "problem_type", "return_dict*", "summary_*",
    "task_specific_params", "tokenizer_*", "torchscript", "transformers*", "unsloth*", "use_bfloat16",
    "use_cache", "use_flash*",
    // generation
    "chunk_size_feed_forward", "diversity_penalty", "do_sample", "early_stopping", "length_penalty",
    "max_length", "max_new_tokens", "min_length", "num_beam_groups", "num_beams", "num_return_sequences",
    "repetition_penalty", "temperature", "top_k", "top_p", "typical_p"};

bool matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return name == pattern;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  if (behind.ends_with('*')) return name.find(behind.substr(0, behind.size() - 1)) != name.npos;
  return name.size() >= before.size() + behind.size() && name.starts_with(before) && name.ends_with(behind);
}

bool has_effect(const std::string& name) {
  return std::ranges::none_of(kWithoutEffect, [&](auto pattern) { return matches(pattern, name); });
}

void ignore_what_has_no_effect(SettingsReader& r, const json& config) {
  for (const auto& [name, value] : config.items())
    if (!has_effect(name)) r.ignore({name});
}

void read_dtype(SettingsReader& r) {
  const char* name = r.has("dtype") ? "dtype" : "torch_dtype";
  const json& value = r.get(name);
  r.ignore({"torch_dtype"});
  if (value.is_null() || value == "float32") return;
  if (value == "bfloat16")
    r.set("dtype", "bf16");
  else if (value == "float16")
    r.set("dtype", "f16");
  else
    r.refuse(name, "float32, bfloat16 or float16");
}

}  // namespace

FamilySettings read_config(const json& config, const std::filesystem::path& path) {
  if (!config.is_object()) fail("{}: expected a JSON object", path.string());
  SettingsReader r(config);
  const Family* family = family_of_config(config);
  r.ignore({"model_type"});
  if (family) {
    for (const ConfigEntry& entry : family->hugging_face->config) entry.read(r);
    ignore_what_has_no_effect(r, config);
    read_dtype(r);
    r.refuse_unknown();
  } else {
    r.refuse("model_type", hugging_face_families("or"));
  }
  if (!r.problems().empty())
    fail("{}: this model cannot be imported yet, for these settings are not supported:\n  {}", path.string(),
         fmt::join(r.problems(), "\n  "));
  return {family, r.settings()};
}

}  // namespace genesis::models::hugging_face
