#include "models/formats/gguf/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "builder/rope_scaling.h"
#include "schema/core/parse_number.h"
#include "schema/core/type_limits.h"

namespace genesis::models::gguf {
namespace {

std::string shown(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format("'{}'", text->substr(0, 60));
  if (const auto* number = std::get_if<int64_t>(&value)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return "a list";
}

// Reads the metadata field by field and collects problems.
class Reader {
 public:
  explicit Reader(const Gguf& gguf) : gguf_(gguf) {
    const GgufValue* name = find("general.architecture");
    if (const auto* text = name ? std::get_if<std::string>(name) : nullptr) architecture = *text;
  }

  // Returns a value of the architecture: "qwen2.block_count" for "block_count".
  const GgufValue* get(const std::string& name) const { return find(architecture + "." + name); }

  void copy_size(const std::string& name, const char* setting) {
    const GgufValue* value = get(name);
    const int64_t* size = value ? std::get_if<int64_t>(value) : nullptr;
    if (!size || *size < 1 || *size > (int64_t{1} << 40)) return refuse(name, "a size");
    settings[setting] = std::to_string(*size);
  }
  void copy_number(const std::string& name, const char* setting) {
    const GgufValue* value = get(name);
    const double* number = value ? std::get_if<double>(value) : nullptr;
    if (!number || !fits_f32(*number) || *number < 0)
      return refuse(name, "a number that is not negative and that f32 can hold");
    // The file stores an f32: write it as 1e-6, not as 9.99999997475e-07.
    settings[setting] = fmt::format("{}", static_cast<float>(*number));
  }
  // Refuses more blocks than the file has tensors: making a model of that many would take forever.
  void copy_blocks(const char* setting) {
    copy_size("block_count", setting);
    if (settings.contains(setting) && std::stoull(settings[setting]) > gguf_.tensors.size())
      refuse("block_count", "no more than there are tensors");
  }
  void refuse(const std::string& name, const std::string& expected) {
    problems.push_back(fmt::format("{}.{} is {}, expected {}", architecture, name,
                                   get(name) ? shown(*get(name)) : "not there", expected));
  }
  bool has_tensor(const char* name) const { return tensor(name) != nullptr; }
  const GgufTensor* tensor(const char* name) const {
    const auto at = gguf_.tensors.find(name);
    return at == gguf_.tensors.end() ? nullptr : &at->second;
  }
  Tensor read(const GgufTensor& tensor) const {
    return gguf_tensor(*tensor.type, tensor.shape, gguf_.owner, tensor.bytes, DType::f32);
  }
  // Returns the number of rows of a matrix; nothing if it does not exist.
  std::optional<int64_t> rows_of(const char* name) const {
    const GgufTensor* matrix = tensor(name);
    if (!matrix || matrix->shape.rank() != 2) return std::nullopt;
    return matrix->shape[0].value();
  }

  // Returns the number of items of a list of texts; nothing if it does not exist.
  std::optional<int64_t> count_of(const char* name) const {
    const GgufValue* value = find(name);
    const auto* list = value ? std::get_if<std::vector<std::string>>(value) : nullptr;
    return list ? std::optional(std::ssize(*list)) : std::nullopt;
  }

  std::string architecture;
  Settings settings;
  std::vector<std::string> problems;

 private:
  const GgufValue* find(const std::string& name) const {
    const auto at = gguf_.metadata.find(name);
    return at == gguf_.metadata.end() ? nullptr : &at->second;
  }
  const Gguf& gguf_;
};

void must_be(Reader& r, const std::string& name, const std::string& setting, const char* expected) {
  const GgufValue* value = r.get(name);
  if (!value) return;
  const int64_t* size = std::get_if<int64_t>(value);
  if (!size || std::to_string(*size) != r.settings[setting])
    r.refuse(name, fmt::format("{}, {}", expected, r.settings[setting]));
}

// Takes the number of tokens from the rows of the embedding. Other metadata that state it must agree.
void read_vocabulary(Reader& r) {
  const auto rows = r.rows_of("token_embd.weight");
  if (!rows) return r.problems.push_back("there is no matrix token_embd.weight");
  r.settings["vocab_size"] = std::to_string(*rows);
  must_be(r, "vocab_size", "vocab_size", "the rows of token_embd.weight");
  if (const auto tokens = r.count_of("tokenizer.ggml.tokens"); tokens && *tokens != *rows)
    r.problems.push_back(fmt::format(
        "tokenizer.ggml.tokens are {}, expected the {} rows of token_embd.weight", *tokens, *rows));
}

void read_gpt2(Reader& r) {
  r.copy_size("context_length", "n_positions");
  r.copy_size("embedding_length", "n_embd");
  r.copy_blocks("n_layer");
  r.copy_size("attention.head_count", "n_head");
  r.copy_number("attention.layer_norm_epsilon", "layer_norm_epsilon");
}

// Fills in what the file does not state as llama.cpp does.
void read_yarn(Reader& r) {
  r.copy_size("rope.scaling.original_context_length", "rope_original_positions");
  const double factor = parse_number<double>(r.settings["rope_factor"]).value_or(1);
  r.settings["rope_attention_factor"] = fmt::format("{}", factor > 1 ? 0.1 * std::log(factor) + 1 : 1);
  for (const char* name : {"beta_fast", "beta_slow"})
    if (const std::string key = fmt::format("rope.scaling.yarn_{}", name); r.get(key))
      r.copy_number(key, fmt::format("rope_{}", name).c_str());
  for (const char* name : {"attn_factor", "yarn_ext_factor", "yarn_attn_factor", "yarn_log_multiplier"})
    if (const std::string key = fmt::format("rope.scaling.{}", name); r.get(key)) r.refuse(key, "none");
}

// Files of Llama 3 store the divisor of each frequency instead of the parameters of the scaling. Finds the factor that gives
// these divisors with the parameters that all models of this kind share; refuses other divisors.
void read_divisors(Reader& r, const GgufTensor& tensor) {
  const Tensor divisors = r.read(tensor);
  const auto values = divisors.to_doubles();
  const double theta = parse_number<double>(r.settings["rope_theta"]).value_or(0);
  const auto size = parse_number<int64_t>(r.settings["head_dim"]).value_or(0);
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
    return r.problems.push_back(
        "rope_freqs.weight: frequencies that are not scaled as those of Llama 3.1 to 3.3");
  r.settings["rope_scaling"] = "llama3";
  r.settings["rope_factor"] = fmt::format("{}", static_cast<float>(scaling.factor));
  r.settings["rope_original_positions"] = "8192";
  r.settings["rope_low_freq_factor"] = "1";
  r.settings["rope_high_freq_factor"] = "4";
}

void read_scaling(Reader& r) {
  if (const GgufTensor* divisors = r.tensor("rope_freqs.weight")) read_divisors(r, *divisors);
  const GgufValue* value = r.get("rope.scaling.type");
  const auto* type = value ? std::get_if<std::string>(value) : nullptr;
  if (!value || (type && *type == "none")) return;
  if (!type || (*type != "linear" && *type != "yarn"))
    return r.refuse("rope.scaling.type", "none, linear or yarn");
  r.settings["rope_scaling"] = *type;
  r.copy_number("rope.scaling.factor", "rope_factor");
  if (*type == "yarn") read_yarn(r);
}

void read_rope(Reader& r) {
  if (r.get("rope.freq_base"))
    r.copy_number("rope.freq_base", "rope_theta");
  else
    r.settings["rope_theta"] = "10000";
  must_be(r, "rope.dimension_count", "head_dim", "the size of a head");
  read_scaling(r);
}

void read_head_size(Reader& r) {
  const int64_t hidden = std::stoll(r.settings["hidden_size"]),
                heads = std::stoll(r.settings["num_attention_heads"]);
  if (r.get("attention.key_length"))
    r.copy_size("attention.key_length", "head_dim");
  else if (hidden % heads != 0)
    r.refuse("attention.head_count", fmt::format("a divisor of embedding_length, {}", hidden));
  else
    r.settings["head_dim"] = std::to_string(hidden / heads);
  if (heads % std::stoll(r.settings["num_key_value_heads"]) != 0)
    r.refuse("attention.head_count_kv", fmt::format("a divisor of attention.head_count, {}", heads));
}

void read_decoder(Reader& r) {
  r.copy_size("context_length", "max_position_embeddings");
  r.copy_size("embedding_length", "hidden_size");
  r.copy_blocks("num_hidden_layers");
  r.copy_size("feed_forward_length", "intermediate_size");
  r.copy_size("attention.head_count", "num_attention_heads");
  r.copy_size(r.get("attention.head_count_kv") ? "attention.head_count_kv" : "attention.head_count",
              "num_key_value_heads");
  r.copy_number("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  if (!r.problems.empty()) return;
  read_head_size(r);
  must_be(r, "attention.value_length", "head_dim", "the size of a head");
  read_rope(r);
  r.settings["tie_word_embeddings"] = r.has_tensor("output.weight") ? "false" : "true";
  if (r.get("attention.sliding_window")) r.refuse("attention.sliding_window", "none");
}

// Returns the dtype of most elements; quantized ones count as bf16.
const char* dtype_of(const Gguf& gguf) {
  std::map<DType, int64_t> elements;
  for (const auto& [name, tensor] : gguf.tensors)
    elements[tensor.type->plain.value_or(DType::bf16)] += tensor.shape.numel().value();
  const auto most = std::ranges::max_element(elements, [](auto& a, auto& b) { return a.second < b.second; });
  return most == elements.end() ? "f32" : name_of(most->first).data();
}

}  // namespace

ZooSettings read_config(const Gguf& gguf) {
  Reader r(gguf);
  if (r.architecture == "gpt2")
    read_gpt2(r);
  else if (r.architecture == "llama" || r.architecture == "qwen2" || r.architecture == "qwen3")
    read_decoder(r);
  else
    r.problems.push_back(fmt::format("general.architecture is '{}', expected gpt2, llama, qwen2 or qwen3",
                                     r.architecture.substr(0, 60)));
  read_vocabulary(r);
  if (!r.problems.empty())
    fail("this model cannot be imported, for these settings are not supported:\n  {}",
         fmt::join(r.problems, "\n  "));
  r.settings["dtype"] = dtype_of(gguf);
  return {r.architecture, std::move(r.settings)};
}

}  // namespace genesis::models::gguf
