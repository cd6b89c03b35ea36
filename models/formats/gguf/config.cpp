#include "models/formats/gguf/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "builder/rope_scaling.h"
#include "models/formats/gguf/names.h"
#include "schema/core/parse_number.h"

namespace genesis::models::gguf {
namespace {

using nlohmann::json;

// Files store real numbers as f32. Returns 1e-6 for such a number, and not 9.99999997475e-07.
double shortest(double number) {
  return parse_number<double>(fmt::format("{}", static_cast<float>(number))).value_or(number);
}

json json_of(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return shortest(*number);
  return std::visit([](const auto& plain) { return json(plain); }, value);
}

// Returns the metadata of an architecture without its name: "block_count" for "qwen2.block_count".
json metadata_of(const Gguf& gguf, const std::string& architecture) {
  json metadata = json::object();
  const std::string prefix = architecture + ".";
  for (const auto& [name, value] : gguf.metadata)
    if (name.starts_with(prefix)) metadata[name.substr(prefix.size())] = json_of(value);
  return metadata;
}

std::string architecture_of(const Gguf& gguf) {
  const auto at = gguf.metadata.find("general.architecture");
  const auto* name = at == gguf.metadata.end() ? nullptr : std::get_if<std::string>(&at->second);
  return name ? *name : "";
}

const GgufTensor* find_tensor(const Gguf& gguf, std::string_view name) {
  const auto at = gguf.tensors.find(std::string(name));
  return at == gguf.tensors.end() ? nullptr : &at->second;
}

// Returns the number of tokens in the tokenizer; nothing if there is none.
std::optional<int64_t> count_tokens(const Gguf& gguf) {
  const auto at = gguf.metadata.find("tokenizer.ggml.tokens");
  const auto* list = at == gguf.metadata.end() ? nullptr : std::get_if<std::vector<std::string>>(&at->second);
  return list ? std::optional(std::ssize(*list)) : std::nullopt;
}

// Takes the number of tokens from the rows of the embedding. Other metadata that state it must agree.
void read_vocabulary(SettingsReader& r, const Gguf& gguf) {
  const GgufTensor* embedding = find_tensor(gguf, "token_embd.weight");
  if (!embedding || embedding->shape.rank() != 2)
    return r.add_problem("there is no matrix token_embd.weight");
  const int64_t rows = embedding->shape[0].value();
  r.set("vocab_size", rows);
  if (r.has("vocab_size") && r.get("vocab_size") != rows)
    r.refuse("vocab_size", fmt::format("the rows of token_embd.weight, {}", rows));
  if (const auto tokens = count_tokens(gguf); tokens && *tokens != rows)
    r.add_problem(fmt::format("tokenizer.ggml.tokens are {}, expected the {} rows of token_embd.weight",
                              *tokens, rows));
}

// In Gemma 4 the first pairs rotate as usual and the others, whose divisor is 1e30, do not. Returns false for other divisors.
bool read_proportion(SettingsReader& r, const std::vector<double>& divisors) {
  const auto turns = [](double divisor) { return divisor == 1; };
  const int64_t turning = std::ranges::count_if(divisors, turns);
  const bool is_known = std::ranges::all_of(divisors.begin(), divisors.begin() + turning, turns) &&
                        std::ranges::all_of(divisors.begin() + turning, divisors.end(),
                                            [](double divisor) { return divisor > 1e29; });
  if (!is_known || turning == 0) return false;
  r.set("rope_scaling", "proportional");
  r.set("rope_proportion", static_cast<double>(turning) / static_cast<double>(divisors.size()));
  return true;
}

// Files of Llama 3 store the divisor of each frequency instead of the parameters of the scaling. Finds the factor that gives
// these divisors with the parameters that all models of this kind share; refuses other divisors.
void read_divisors(SettingsReader& r, const Gguf& gguf) {
  const GgufTensor* tensor = find_tensor(gguf, kRopeDivisors);
  if (!tensor) return;
  const auto values =
      gguf_tensor(*tensor->type, tensor->shape, gguf.owner, tensor->bytes, DType::f32).to_doubles();
  if (read_proportion(r, values)) return;
  const double theta = r.settings().value("rope_theta", 0.0);
  const int64_t size = r.size("head_dim");
  nn::RopeScaling scaling{.kind = nn::RopeScalingKind::kLlama3, .original_positions = 8192};
  scaling.factor = values.empty() ? 0 : *std::ranges::max_element(values);
  bool same = scaling.factor > 1 && std::isfinite(scaling.factor) && theta > 0 && size > 0 &&
              size < (1 << 16) && static_cast<int64_t>(values.size()) * 2 == size;
  const auto scaled = same ? nn::rope_frequencies(theta, size, scaling) : std::vector<double>();
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double divided =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(size)) / values[i];
    same = same && std::abs(divided - scaled[i]) <= 1e-4 * scaled[i];
  }
  if (!same)
    return r.add_problem("rope_freqs.weight: frequencies that are not scaled as those of Llama 3.1 to 3.3");
  r.set("rope_scaling", "llama3");
  r.set("rope_factor", shortest(scaling.factor));
  r.set("rope_original_positions", 8192);
  r.set("rope_low_freq_factor", 1.0);
  r.set("rope_high_freq_factor", 4.0);
}

// Returns the values of a list of real numbers, as they were written.
std::vector<double> numbers_in(const Gguf& gguf, const GgufTensor& tensor) {
  std::vector<double> numbers =
      gguf_tensor(*tensor.type, tensor.shape, gguf.owner, tensor.bytes, DType::f32).to_doubles();
  for (double& number : numbers) number = shortest(number);
  return numbers;
}

// Files with LongRoPE store the divisors of each frequency, for texts up to the length of the training and for longer ones.
void read_long_factors(SettingsReader& r, const Gguf& gguf) {
  const GgufTensor *of_long = find_tensor(gguf, kLongFactors), *of_short = find_tensor(gguf, kShortFactors);
  if (!of_long && !of_short) {
    if (r.get("rope.scaling.type") == "longrope") r.refuse("rope.scaling.type", "none, linear or yarn");
    return;
  }
  if (!of_long || !of_short)
    return r.add_problem(fmt::format("there is {} without {}", of_long ? kLongFactors : kShortFactors,
                                     of_long ? kShortFactors : kLongFactors));
  r.set("rope_scaling", "longrope");
  r.set("rope_short_factors", numbers_in(gguf, *of_short));
  r.set("rope_long_factors", numbers_in(gguf, *of_long));
  r.copy_size("rope.scaling.original_context_length", "rope_original_positions");
  r.copy_number("rope.scaling.attn_factor", "rope_attention_factor", 1.0);
  const int64_t longest = r.size("max_position_embeddings"), trained = r.size("rope_original_positions");
  if (trained > 0) r.set("rope_factor", static_cast<double>(longest) / static_cast<double>(trained));
}

// Returns the dtype of most elements; quantized ones count as bf16.
std::string dtype_of(const Gguf& gguf) {
  std::map<DType, int64_t> elements;
  for (const auto& [name, tensor] : gguf.tensors)
    elements[tensor.type->plain.value_or(DType::bf16)] += tensor.shape.numel().value();
  const auto most = std::ranges::max_element(elements, [](auto& a, auto& b) { return a.second < b.second; });
  return most == elements.end() ? "f32" : std::string(name_of(most->first));
}

void read_family(SettingsReader& r, const Family& family, const Gguf& gguf) {
  for (const ConfigEntry& entry : family.gguf->metadata) entry.read(r);
  // Making a model of more blocks than there are tensors would take forever.
  if (r.size(family.layers_setting) > static_cast<int64_t>(gguf.tensors.size()))
    r.refuse("block_count", "no more than there are tensors");
  if (r.settings().contains("rope_theta")) read_divisors(r, gguf), read_long_factors(r, gguf);
  for (const TensorFlag& flag : family.gguf->flags)
    r.set(flag.setting, (find_tensor(gguf, flag.tensor) != nullptr) == flag.where_there);
  if (!family.gguf->head_is_embedding) r.set("tie_word_embeddings", !find_tensor(gguf, "output.weight"));
  if (!family.gguf->adapt) return;
  json settings = r.settings();
  family.gguf->adapt(settings, [&](const std::string& name) { return find_tensor(gguf, name) != nullptr; });
  for (const auto& [setting, value] : settings.items()) r.set(setting, value);
}

}  // namespace

FamilySettings read_config(const Gguf& gguf) {
  const std::string architecture = architecture_of(gguf);
  const auto has = [&](const std::string& number) {
    const auto at = gguf.metadata.find(architecture + "." + number);
    return at != gguf.metadata.end() && json_of(at->second) != 0 && json_of(at->second) != false;
  };
  const Family* family = family_of_gguf(architecture, has);
  const json metadata = family ? metadata_of(gguf, architecture) : json::object();
  SettingsReader r(metadata, architecture + ".", '\'');
  if (family)
    read_family(r, *family, gguf);
  else
    r.add_problem(fmt::format("general.architecture is '{}', expected {}", architecture.substr(0, 60),
                              gguf_families("or")));
  read_vocabulary(r, gguf);
  if (family) r.refuse_unknown();
  if (!r.problems().empty())
    fail("this model cannot be imported, for these settings are not supported:\n  {}",
         fmt::join(r.problems(), "\n  "));
  r.set("dtype", dtype_of(gguf));
  return {family, r.settings()};
}

}  // namespace genesis::models::gguf
