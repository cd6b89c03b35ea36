// All that the file of a family of encoders includes: make_encoder() as a network, and the form in transformers.
#pragma once

#include "models/families.h"
#include "models/families/encoder/config_json.h"
#include "models/families/encoder/encoder.h"
#include "models/network.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::models {

// Encoders whose base model may have a pooler.
struct PoolerConfig : EncoderConfig {
  bool pooler = true;  // the base model without another head has a pooler

  static void fields(auto& self, auto&& visit) {
    EncoderConfig::fields(self, visit);
    visit("pooler", self.pooler);
  }
};

// The heads of RoBERTa and the families that copied them: they have a layer of their own instead of the pooler.
inline constexpr EncoderHeadNames kRobertaHeads = {.dense = "classifier.dense",
                                                   .activation = [](Value x) { return tanh(x); },
                                                   .classifier = "classifier.out_proj",
                                                   .mlm_dense = "lm_head.dense",
                                                   .mlm_norm = "lm_head.layer_norm",
                                                   .mlm_bias = "lm_head",
                                                   .mlm_has_gelu = true};

// Returns the entry of a setting that only the tensors of a checkpoint tell.
inline ConfigEntry told_by_tensors(const std::string& setting) {
  return {.settings = {setting}, .read = [](SettingsReader&) {}, .changes_results = false};
}

}  // namespace genesis::models
