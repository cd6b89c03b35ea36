// Converts a model to the data of a page: `Model` of tools/viz/page/data.d.ts.
#pragma once

#include <filesystem>
#include <vector>

#include "tools/viz/data/entry_data.h"

namespace genesis::viz {

struct ModelOptions {
  std::vector<std::string> entries;  // names to show; empty: all
  Bindings sizes;                    // sizes given by the user
  EntryOptions entry;                // model_data() sets its sizes
  bool values = false;  // also summarize the values of all states and constants, which takes a while
};

// Throws Error if the model has no entry point of a given name.
Json model_data(const Model& model, const std::filesystem::path& file, const ModelOptions& options,
                Tables& tables);

// Returns the bytes of a state's values in the file, which are fewer than its type says if they are quantized.
int64_t kept_bytes(const State& state);

// Returns the file's bytes; 0 if unknown.
int64_t size_of_file(const std::filesystem::path& file);

}  // namespace genesis::viz
