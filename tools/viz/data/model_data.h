// A model as a page shows it: `Model` of tools/viz/page/data.d.ts.
#pragma once

#include <filesystem>
#include <vector>

#include "tools/viz/data/entry_data.h"

namespace genesis::viz {

struct ModelOptions {
  std::vector<std::string> entries;  // to show; empty: all
  Bindings sizes;                    // that were given
  EntryOptions entry;                // its sizes are set here
  bool values = false;               // look at the values of all states and constants, which takes a while
};

// Throws Error for an entry point that the model does not have.
Json model_data(const Model& model, const std::filesystem::path& file, const ModelOptions& options,
                Tables& tables);

// Bytes of a state's values as the file keeps them: fewer than its type says if they are quantized.
int64_t kept_bytes(const State& state);

// 0: it cannot be told.
int64_t size_of_file(const std::filesystem::path& file);

}  // namespace genesis::viz
