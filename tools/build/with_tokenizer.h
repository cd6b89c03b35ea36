// A model of the zoo that brings a tokenizer.
#pragma once

#include <memory>
#include <string>

#include "models/zoo.h"

namespace genesis::tools {

// The vocabulary is the tokenizer's, or the larger one that `settings` ask for. Without a tokenizer ("") the model alone.
std::unique_ptr<Model> make_with_tokenizer(const std::string& name, models::Settings settings, uint64_t seed,
                                           const std::string& tokenizer);

}  // namespace genesis::tools
