// The files with which sentence-transformers makes vectors of a model's features: modules.json names the modules, and each module has
// a folder (1_Pooling/config.json). They travel with the model as attached files; VectorSettings are what they mean.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "executor/named_tensors.h"
#include "models/vectors.h"

namespace genesis::models::hugging_face {

struct SentenceModules {
  VectorSettings settings;
  NamedTensors dense;              // values of the states of linear layers
  std::vector<std::string> files;  // the names of those that were read
};

// Returns nothing for a folder without modules.json. Throws one Error that lists everything that is not understood: other modules,
// another order of them, unknown settings, and those with which vectors would be others.
std::optional<SentenceModules> read_sentence_modules(const std::filesystem::path& folder);

// Adds the entry point `embed` to an imported model if the folder has modules.json, and attaches its files. An encoder without them
// whose features are its result gets the mean of the features of all tokens, as in sentence-transformers, which is logged.
void add_vectors_of_folder(Model& model, const std::filesystem::path& folder);

// Writes the settings into new files modules.json and 1_Pooling/config.json, which are attached instead of those that the model
// has. Throws Error for a model with linear layers behind the pooling.
void attach_sentence_modules(Model& model, const VectorSettings& settings, int64_t features);

// The folder of a linear layer behind the pooling, with config.json and model.safetensors, by its number: "2_Dense".
std::string dense_folder(size_t layer);

// Returns true for the names of files that sentence-transformers writes beside those of transformers.
bool is_sentence_file(const std::string& name);

}  // namespace genesis::models::hugging_face
