// adapter_config.json: the settings of an adapter as PEFT writes them. Used by what reads and writes its tensors (adapter.h).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/hugging_face/name_expression.h"
#include "passes/lora/lora.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

class AdapterConfig {
 public:
  // Throws Error naming the file, with all settings that plain LoRA does not have. A setting that PEFT does not have, or that
  // is newer than this, costs a warning where it is not null, false, 0 or empty.
  explicit AdapterConfig(const std::filesystem::path& file);

  // The settings with ranks and alphas of each layer: of rank_pattern and alpha_pattern the first key that matches its name
  // decides, as for PEFT. Throws Error naming the file where a key is no expression.
  passes::LoraOptions options_for(const std::vector<std::string>& layers) const;

  // True where the file says that weights are stored [in, out], as GPT-2's are.
  bool is_fan_in_fan_out() const { return fan_in_fan_out_; }

 private:
  // Values by expression, in the order of the file.
  using Pattern = std::vector<std::pair<NameExpression, double>>;

  void read(const std::string& text);
  static Pattern read_pattern(const nlohmann::json& config, const char* key,
                              const std::vector<std::string>& order);

  std::filesystem::path file_;
  double rank_ = 8, alpha_ = 8, dropout_ = 0;  // of PEFT where the file does not say
  bool stabilized_ = false;                    // alpha is divided by the root of the rank
  bool fan_in_fan_out_ = false;
  Pattern ranks_, alphas_;
};

// True for a GPT-2, whose layers are Conv1D in transformers.
bool is_gpt2(const Model& model);

// The settings of a model's adapters, to be written. `base`: what PEFT loads the base model from; null where nobody knows.
nlohmann::ordered_json adapter_config_of(const Model& model, const passes::LoraOptions& options,
                                         const nlohmann::json& base);

}  // namespace genesis::models::hugging_face
