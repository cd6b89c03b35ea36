// Reads "model" of a tokenizer.json: its kind with its settings, and its tokens.
#pragma once

#include <nlohmann/json.hpp>

#include "models/tokenizer/pipeline_file.h"
#include "models/tokenizer/word_model.h"
#include "models/tokenizer/words/vocabulary.h"

namespace genesis::text {

struct ModelSection {
  Vocabulary vocabulary;
  WordModelData data;
};

// Returns the model without tokens and merges. A model without a type is of the first kind whose members it has, as in
// `tokenizers`. Adds to `refusals` what is not supported; throws Error for members of a wrong type.
WordModelData model_options(const nlohmann::json& model, Refusals& refusals);

// Adds the tokens to a section whose `data` are the options of the same model. Throws Error that names what is invalid.
void read_tokens(const nlohmann::json& model, ModelSection& section);

}  // namespace genesis::text
