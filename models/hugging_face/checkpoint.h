// The weights of a folder as transformers saves it: one model.safetensors, or shards that model.safetensors.index.json
// lists, with the names and layouts of the zoo's models.
#pragma once

#include <filesystem>
#include <string>

#include "executor/named_tensors.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::hugging_face {

// Views into the mapped files, but for GPT-2's Conv1D weights, which are stored [in, out] and come back transposed.
// Left out is what a model of the zoo has no state for and needs none: masks, frequencies, and a head that is tied.
// `files` gets the files that were read. Throws Error naming the file.
NamedTensors read_weights(const std::filesystem::path& folder, const std::string& model, bool tied_head,
                          MappedFiles* files = nullptr);

}  // namespace genesis::models::hugging_face
