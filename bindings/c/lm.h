// Language models of the C interface, and the settings of their texts.
#pragma once

#include <atomic>

#include "bindings/c/handles.h"
#include "models/text/text_model.h"

namespace genesis::c {

struct LanguageModel {
  explicit LanguageModel(text::TextModel opened) : model(std::move(opened)) {}

  std::mutex busy;
  text::TextModel model;
  std::atomic<bool> has_engine = false;  // an engine uses the model's session, whose cache holds its texts
};

// Reads a JSON object of settings; null gives none. Throws Error naming a setting that does not fit.
text::GenerateSettings settings_of(const char* given);

}  // namespace genesis::c

struct gn_lm {
  std::shared_ptr<genesis::c::LanguageModel> state;
};
