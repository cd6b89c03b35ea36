// RoBERTa (Liu et al., "RoBERTa: A robustly optimized BERT pretraining approach", 2019): BERT whose positions begin behind the
// index of the padding token, with other heads. XLM-RoBERTa is the same with another vocabulary.
#pragma once

#include <string>

#include "models/families.h"

namespace genesis::models {

// `stem` begins the names of the classes in transformers.
Family roberta_like(const std::string& name, const std::string& summary, const std::string& model_type,
                    const std::string& stem, int64_t vocab_size);

}  // namespace genesis::models
