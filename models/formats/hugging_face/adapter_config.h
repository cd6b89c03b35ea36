// Reads and writes adapter_config.json, the settings of a PEFT adapter.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/formats/hugging_face/name_expression.h"
#include "passes/lora/lora.h"
#include "schema/file/object_reader.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

class AdapterConfig {
 public:
  // Throws Error naming the file, with all settings that are not supported. An unknown setting causes a warning unless it is
  // null, false, 0 or empty.
  explicit AdapterConfig(const std::filesystem::path& file);

  // Returns the settings with ranks and alphas of each layer. As in PEFT, the first key of rank_pattern and alpha_pattern that
  // matches the layer's name counts. Throws Error naming the file if a key is not a regular expression.
  passes::LoraOptions options_for(const std::vector<std::string>& layers) const;

  // Returns true if the file says that weights are stored [in, out], as GPT-2's are.
  bool is_fan_in_fan_out() const { return fan_in_fan_out_; }

  bool trains_biases() const { return trains_biases_; }  // the file has trained biases
  // Returns true if a head that shares a changed embedding changes, too.
  bool ties_weights() const { return ties_weights_; }
  // Returns true if the module was trained whole: as in PEFT, if its name ends with one of modules_to_save.
  bool saves(const std::string& module) const;

 private:
  // Values by regular expression, in the order of the file.
  using Pattern = std::vector<std::pair<NameExpression, double>>;

  // `text` has the entries in the order of the file.
  void read(const nlohmann::json& entries, const std::string& text);
  static Pattern read_pattern(ObjectReader& config, const char* key, const std::vector<std::string>& order);

  std::filesystem::path file_;
  double rank_ = 8, alpha_ = 8, dropout_ = 0;  // PEFT's defaults
  bool stabilized_ = false;                    // rsLoRA: alpha is divided by the square root of the rank
  bool fan_in_fan_out_ = false, trains_biases_ = false, ties_weights_ = false;
  std::vector<std::string> saved_;
  Pattern ranks_, alphas_;
};

// Returns true if transformers stores the weights of the model's linear layers as [in, out] (conv1d.h).
bool is_stored_in_out(const Model& model);

// Returns the adapter_config.json of a model's adapters, for the layers that are the targets of `options`. `base` is the name from which PEFT loads the base model; null if it is
// unknown.
nlohmann::ordered_json adapter_config_of(const Model& model, const passes::LoraOptions& options,
                                         const nlohmann::json& base);

}  // namespace genesis::models::hugging_face
