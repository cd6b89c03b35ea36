#include "models/formats/hugging_face/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "schema/core/dtype.h"
#include "schema/core/type_limits.h"

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

// Reads a configuration field by field and collects problems.
class Reader {
 public:
  explicit Reader(const json& config) : config_(config) {}

  const json& get(const char* name) const {
    static const json none;
    const auto at = config_.find(name);
    return at == config_.end() ? none : *at;
  }
  bool has(const char* name) const { return !get(name).is_null(); }

  // `where_absent` is the default of transformers; null if the setting is required.
  void copy_size(const char* name, const json& where_absent = {}) {
    const json& value = given(name, where_absent);
    if (!value.is_number_integer() || value < 1 || value > (int64_t{1} << 40)) return refuse(name, "a size");
    settings[name] = std::to_string(value.get<int64_t>());
  }
  void copy_number(const char* name, const json& value) {
    if (!value.is_number() || value.get<double>() < 0) return refuse(name, "a number that is not negative");
    if (!fits_f32(value.get<double>())) return refuse(name, "a number that f32 can hold");
    settings[name] = fmt::format("{}", value.get<double>());
  }
  void copy_flag(const char* name, bool where_absent) {
    if (has(name) && !get(name).is_boolean()) return refuse(name, "true or false");
    settings[name] = (has(name) ? get(name).get<bool>() : where_absent) ? "true" : "false";
  }
  // Refuses other values, which change what the model computes. An absent setting is accepted.
  void must_be(const char* name, const json& only) { must_be_one_of(name, {only}); }
  void must_be_one_of(const char* name, const std::vector<json>& values) {
    if (has(name) && std::ranges::find(values, get(name)) == values.end())
      problems.push_back(fmt::format("{}: {}", name, shown(get(name))));
  }
  const json& given(const char* name, const json& where_absent) const {
    return config_.contains(name) ? get(name) : where_absent;
  }
  bool is_null(const char* name) const { return config_.contains(name) && get(name).is_null(); }
  // Returns the size that copy_size() accepted; 0 if it was refused.
  int64_t size(const char* name) const {
    const auto at = settings.find(name);
    return at == settings.end() ? 0 : std::stoll(at->second);
  }
  // Returns an integer setting. A value that is not an integer is refused elsewhere.
  int64_t whole(const char* name, int64_t where_absent) const {
    return get(name).is_number_integer() ? get(name).get<int64_t>() : where_absent;
  }
  void refuse(const char* name, const char* expected) {
    problems.push_back(
        fmt::format("{} is {}, expected {}", name, has(name) ? shown(get(name)) : "not there", expected));
  }

  Settings settings;
  std::vector<std::string> problems;

 private:
  const json& config_;
};

void read_dtype(Reader& r) {
  const char* name = r.has("dtype") ? "dtype" : "torch_dtype";
  const json& value = r.get(name);
  if (value.is_null() || value == "float32") return;
  if (value == "bfloat16")
    r.settings["dtype"] = "bf16";
  else if (value == "float16")
    r.settings["dtype"] = "f16";
  else
    r.refuse(name, "float32, bfloat16 or float16");
}

// Names that transformers (ACT2FN) has for the same function: x * sigmoid(x), and GELU with tanh.
const std::vector<json>& names_of_silu() {
  static const std::vector<json> names = {"silu", "swish"};
  return names;
}
const std::vector<json>& names_of_gelu_tanh() {
  static const std::vector<json> names = {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast",
                                          "gelu_accurate"};
  return names;
}

void read_gpt2(Reader& r) {
  r.copy_size("vocab_size", 50257);
  r.copy_size("n_positions", 1024);
  r.copy_size("n_embd", 768);
  for (const char* size : {"n_layer", "n_head"}) r.copy_size(size, 12);
  if (r.has("layer_norm_epsilon")) r.copy_number("layer_norm_epsilon", r.get("layer_norm_epsilon"));
  if (r.has("n_inner") && r.settings.contains("n_embd") && r.get("n_inner") != 4 * r.size("n_embd"))
    r.refuse("n_inner", "4 * n_embd");
  r.must_be_one_of("activation_function", names_of_gelu_tanh());
  r.must_be("scale_attn_weights", true);
  r.must_be("scale_attn_by_inverse_layer_idx", false);
  r.must_be("add_cross_attention", false);
  r.copy_flag("tie_word_embeddings", true);
}

// Reads theta and the scaling of RoPE. Older versions of transformers write rope_scaling, version 5 rope_parameters; the first
// takes precedence.
class RopeReader {
 public:
  explicit RopeReader(Reader& reader) : r_(reader) {
    for (const char* name : {"rope_scaling", "rope_parameters"}) {
      const json& found = r_.get(name);
      if (found.is_null() || (found.is_object() && found.empty())) continue;
      if (!found.is_object()) r_.refuse(name, "an object");
      name_ = name;
      of_ = found.is_object() ? &found : nullptr;
      return;
    }
  }

  void read() {
    read_theta();
    r_.must_be("partial_rotary_factor", 1);
    if (!of_) return;
    for (const char* of_layers : {"full_attention", "sliding_attention"})
      if (!get(of_layers).is_null()) return refuse(of_layers);
    const json& type = get(get("rope_type").is_null() ? "type" : "rope_type");
    if (get("partial_rotary_factor") != 1 && !get("partial_rotary_factor").is_null() &&
        type != "proportional")
      refuse("partial_rotary_factor");
    if (type.is_null() || type == "default") return;
    if (type != "linear" && type != "dynamic" && type != "llama3" && type != "yarn" && type != "proportional")
      return refuse(get("rope_type").is_null() ? "type" : "rope_type");
    r_.settings["rope_scaling"] = type.get<std::string>();
    read_factor(type == "yarn", type == "proportional");
    if (type == "proportional") copy("partial_rotary_factor", "rope_proportion", 1);
    if (type == "dynamic") r_.settings["rope_original_positions"] = std::to_string(longest());
    if (type == "llama3") read_llama3();
    if (type == "yarn") read_yarn();
  }

 private:
  const json& get(const char* key) const {
    static const json none;
    if (!of_) return none;
    const auto at = of_->find(key);
    return at == of_->end() ? none : *at;
  }
  void refuse(const char* key) {
    r_.problems.push_back(fmt::format("{}.{}: {}", name_, key, shown(get(key))));
  }
  static bool is_positive(const json& value) {
    return value.is_number() && fits_f32(value.get<double>()) && value.get<double>() > 0;
  }
  double number(const char* key, double where_absent) {
    const json& value = get(key);
    if (value.is_null()) return where_absent;
    if (is_positive(value)) return value.get<double>();
    refuse(key);
    return where_absent;
  }
  void set(const char* setting, double value) { r_.settings[setting] = fmt::format("{}", value); }
  void copy(const char* key, const char* setting, double where_absent) {
    set(setting, number(key, where_absent));
  }

  int64_t longest() const { return r_.size("max_position_embeddings"); }
  int64_t original() {
    const char* key = "original_max_position_embeddings";
    const json& value = r_.has(key) ? r_.get(key) : get(key);
    if (value.is_null()) return longest();
    if (value.is_number_integer() && value > 0 && value < (int64_t{1} << 40)) return value.get<int64_t>();
    refuse(key);
    return 1;
  }

  void read_theta() {
    const json& theta = get("rope_theta").is_null() ? r_.get("rope_theta") : get("rope_theta");
    if (theta.is_null())
      r_.settings["rope_theta"] = "10000";
    else
      r_.copy_number("rope_theta", theta);
  }
  void read_factor(bool of_lengths, bool optional) {
    factor_ = number("factor", 1);
    if (get("factor").is_null() && of_lengths)
      factor_ = static_cast<double>(longest()) / static_cast<double>(original());
    else if (get("factor").is_null() && !optional)
      refuse("factor");
    set("rope_factor", factor_);
  }
  void read_llama3() {
    r_.settings["rope_original_positions"] = std::to_string(original());
    for (const char* key : {"low_freq_factor", "high_freq_factor"})
      get(key).is_null() ? refuse(key) : copy(key, fmt::format("rope_{}", key).c_str(), 1);
  }
  void read_yarn() {
    r_.settings["rope_original_positions"] = std::to_string(original());
    copy("beta_fast", "rope_beta_fast", 32);
    copy("beta_slow", "rope_beta_slow", 1);
    if (const json& truncate = get("truncate"); truncate.is_boolean())
      r_.settings["rope_truncate"] = truncate.get<bool>() ? "true" : "false";
    else if (!truncate.is_null())
      refuse("truncate");
    const double mscale = number("mscale", 0), of_all = number("mscale_all_dim", 0);
    const double standard =
        mscale > 0 && of_all > 0 ? attention_factor(mscale) / attention_factor(of_all) : attention_factor(1);
    copy("attention_factor", "rope_attention_factor", standard);
  }
  // Returns the attention factor that the authors of YaRN suggest.
  double attention_factor(double mscale) const {
    return factor_ <= 1 ? 1 : 0.1 * mscale * std::log(factor_) + 1;
  }

  Reader& r_;
  const char* name_ = "rope_parameters";
  const json* of_ = nullptr;  // null if neither exists
  double factor_ = 1;
};

// Returns the attention type of each layer: from layer_types, else from max_window_layers if layers slide; empty otherwise.
std::vector<std::string> layer_types(Reader& r, bool slides) {
  constexpr int64_t kFirstToSlide = 28, kMaxLayers = 4096;
  std::vector<std::string> types;
  const json& listed = r.get("layer_types");
  if (listed.is_null()) {
    const int64_t layers = std::min(r.size("num_hidden_layers"), kMaxLayers),
                  full = r.whole("max_window_layers", kFirstToSlide);
    for (int64_t i = 0; slides && i < layers; ++i)
      types.emplace_back(i < full ? "full_attention" : "sliding_attention");
    return types;
  }
  if (!listed.is_array()) r.refuse("layer_types", "a list");
  for (const json& type : listed) {
    if (type != "full_attention" && type != "sliding_attention") {
      r.problems.push_back(fmt::format("layer_types: {}", shown(type)));
      break;
    }
    types.push_back(type);
  }
  return types;
}

// Reads the sliding window. A window may be declared and not used; Llama has none.
void read_windows(Reader& r, bool has_windows) {
  constexpr int64_t kWindow = 4096;  // default of transformers
  r.must_be_one_of("use_sliding_window", {false, has_windows});
  const bool slides = has_windows && r.get("use_sliding_window") == true && !r.is_null("sliding_window");
  const std::vector<std::string> types = layer_types(r, slides);
  if (std::ranges::find(types, "sliding_attention") == types.end()) return;
  if (!slides)
    return r.problems.push_back(
        "layer_types: \"sliding_attention\", but no sliding_window is in use (use_sliding_window)");
  r.settings["sliding_window"] = std::to_string(kWindow);
  if (r.has("sliding_window")) r.copy_size("sliding_window");
  r.settings["layer_types"] = fmt::format("{}", fmt::join(types, ","));
}

// The differences between decoders, including the defaults of their classes in transformers. A null key_value_heads means
// num_attention_heads; a null head_dim means hidden_size / num_attention_heads.
struct DecoderKind {
  bool attention_bias, has_windows;
  int64_t vocab_size, intermediate_size, positions;
  json key_value_heads, head_dim;
};

const std::map<std::string, DecoderKind>& decoder_kinds() {
  static const std::map<std::string, DecoderKind> kinds = {
      {"llama", {false, false, 32000, 11008, 2048, nullptr, nullptr}},
      {"qwen2", {true, true, 151936, 22016, 32768, 32, nullptr}},
      {"qwen3", {false, true, 151936, 22016, 32768, 32, 128}}};
  return kinds;
}

void read_decoder(Reader& r, const DecoderKind& kind) {
  r.copy_size("vocab_size", kind.vocab_size);
  r.copy_size("hidden_size", 4096);
  r.copy_size("intermediate_size", kind.intermediate_size);
  for (const char* size : {"num_hidden_layers", "num_attention_heads"}) r.copy_size(size, 32);
  r.copy_size("max_position_embeddings", kind.positions);
  if (r.given("num_key_value_heads", kind.key_value_heads).is_null())
    r.settings["num_key_value_heads"] = r.settings["num_attention_heads"];
  else
    r.copy_size("num_key_value_heads", kind.key_value_heads);
  if (!r.given("head_dim", kind.head_dim).is_null()) r.copy_size("head_dim", kind.head_dim);
  r.copy_number("rms_norm_eps", r.has("rms_norm_eps") ? r.get("rms_norm_eps") : json(1e-6));
  r.copy_flag("tie_word_embeddings", false);
  r.must_be_one_of("hidden_act", names_of_silu());
  r.must_be("attention_bias", kind.attention_bias);
  r.must_be("mlp_bias", false);
  r.must_be("quantization_config", nullptr);
  RopeReader(r).read();
  read_windows(r, kind.has_windows);
}

}  // namespace

ZooSettings read_config(const json& config, const std::filesystem::path& path) {
  if (!config.is_object()) fail("{}: expected a JSON object", path.string());
  Reader r(config);
  const json& type = r.get("model_type");
  if (type == "gpt2")
    read_gpt2(r);
  else if (type.is_string() && decoder_kinds().contains(type.get<std::string>()))
    read_decoder(r, decoder_kinds().at(type.get<std::string>()));
  else
    r.refuse("model_type", "gpt2, llama, qwen2 or qwen3");
  read_dtype(r);
  if (!r.problems.empty())
    fail("{}: this model cannot be imported yet, for these settings are not supported:\n  {}", path.string(),
         fmt::join(r.problems, "\n  "));
  return {type.get<std::string>(), std::move(r.settings)};
}

}  // namespace genesis::models::hugging_face
