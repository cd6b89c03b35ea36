// The weights of a folder as transformers saves it: one model.safetensors, or shards that model.safetensors.index.json
// lists, with the names and layouts of the zoo's models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "executor/named_tensors.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::hugging_face {

// Whether the logits come from a matrix of their own, or from the embedding. Of kTied, a head that is there and is not the
// embedding is an Error; kTiedAnyway goes without it.
enum class Head : uint8_t { kOwn, kTied, kTiedAnyway };

struct CheckpointWeights {
  NamedTensors tensors;
  // Tensors that are there in a dtype that cannot be read (F8_E4M3, ...), with its name; `tensors` lacks them.
  std::map<std::string, std::string> unsupported;
};

// Views into the mapped files, but for GPT-2's Conv1D weights, which are stored [in, out] and come back transposed.
// Left out is what a model of the zoo has no state for and needs none: masks, frequencies, and a head that is tied.
// An index says which files there are, as for transformers; a tensor that it lists and no file has costs a warning, and so does
// one in another file than it says. `files` gets the files that were read. Throws Error naming the file.
CheckpointWeights read_weights(const std::filesystem::path& folder, const std::string& model, Head head,
                               MappedFiles* files = nullptr);

// Names in a message, 10 at most: "a, b and 3 more".
std::string listed(const std::vector<std::string>& names);

}  // namespace genesis::models::hugging_face
