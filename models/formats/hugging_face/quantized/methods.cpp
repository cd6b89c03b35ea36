#include "models/formats/hugging_face/quantized/methods.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/formats/hugging_face/quantized/config.h"

namespace genesis::models::hugging_face::quantized {
namespace {

struct Method {
  std::string_view name;  // quant_method
  EncodedWeights (*take)(const nlohmann::json&, StoredTensors&, Problems&);
};

constexpr Method kMethods[] = {{"fp8", take_fp8},
                               {"fbgemm_fp8", take_fbgemm_fp8},
                               {"modelopt", take_modelopt},
                               {"compressed-tensors", take_compressed_tensors},
                               {"gptq", take_gptq},
                               {"awq", take_awq},
                               {"auto-round", take_auto_round},
                               {"bitsandbytes", take_bitsandbytes},
                               {"mxfp4", take_mxfp4}};

// Ends of names of scales for activations and KV caches, which are not quantized here.
constexpr std::string_view kOfActivations[] = {".input_scale",
                                               ".input_zero_point",
                                               ".input_global_scale",
                                               ".input_scale_ub",
                                               ".activation_scale",
                                               ".output_scale",
                                               ".output_zero_point",
                                               ".act_scale",
                                               ".k_scale",
                                               ".v_scale",
                                               ".q_scale",
                                               ".k_zero_point",
                                               ".v_zero_point",
                                               ".kv_scale",
                                               ".k_proj.output_scale",
                                               ".v_proj.output_scale"};

const Method& find_method(const std::string& name) {
  const auto* found = std::ranges::find(kMethods, name, &Method::name);
  if (found != std::end(kMethods)) return *found;
  std::vector<std::string_view> known;
  for (const Method& method : kMethods) known.push_back(method.name);
  fail(
      "its weights are quantized by '{}', which is not read: read are {}; transformers can save plain "
      "weights "
      "(model.dequantize(), then save_pretrained)",
      name.substr(0, 60), fmt::join(known, ", "));
}

std::string text_of(const Problems& problems) {
  constexpr size_t kShown = 30;
  const auto shown = static_cast<ptrdiff_t>(std::min(problems.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(problems.begin(), problems.begin() + shown, "\n  "));
  if (problems.size() > kShown) text += fmt::format("\n  and {} more", problems.size() - kShown);
  return text;
}

}  // namespace

std::string method_of(const nlohmann::json& config) {
  if (!config.is_object()) fail("quantization_config is {}, expected an object", config.dump().substr(0, 60));
  std::string name = text_in(config, "quant_method", "");
  if (name.empty() && (is_on(config, "load_in_8bit") || is_on(config, "load_in_4bit"))) name = "bitsandbytes";
  if (name.empty() && config.contains("quantization")) name = "modelopt";
  if (name == "compressed_tensors") name = "compressed-tensors";
  if (name == "intel/auto-round") name = "auto-round";
  return std::string(find_method(name).name);
}

EncodedWeights take_encoded(const nlohmann::json& config, StoredTensors& stored) {
  const std::string name = method_of(config);
  return with_context(
      [&] {
        Problems problems;
        EncodedWeights weights = find_method(name).take(config, stored, problems);
        for (const std::string_view end : kOfActivations) stored.drop(end);
        if (!problems.empty())
          fail("{} quantized weights do not fit together:\n  {}", problems.size(), text_of(problems));
        return weights;
      },
      [&] { return fmt::format("in the weights quantized by {} (quantization_config)", name); });
}

}  // namespace genesis::models::hugging_face::quantized
