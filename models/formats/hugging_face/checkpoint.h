// Reads the weights of a folder of transformers: one model.safetensors, or shards that model.safetensors.index.json lists.
// Converts them to the names and layouts of the zoo's models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "executor/named_tensors.h"
#include "models/families.h"
#include "models/formats/hugging_face/quantized/encoded_weight.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::models::hugging_face {

// Says which matrix computes the logits: kOwn is a matrix of its own, the others are the embedding. With kTied, a head in the
// checkpoint that differs from the embedding is an Error; kTiedAnyway ignores it.
enum class Head : uint8_t { kOwn, kTied, kTiedAnyway };

struct CheckpointWeights {
  NamedTensors tensors;
  // Weights that are stored quantized (quantized/methods.h). They are not in `tensors`.
  quantized::EncodedWeights encoded = {};
  // Names and dtypes of other tensors whose dtype cannot be read (F8_E4M3, ...). They are not in `tensors` either.
  std::map<std::string, std::string> unsupported = {};
};

// Returns weights that are views into the mapped files, except for those that are stored [in, out] (conv1d.h), which are
// transposed. Leaves out tensors that the models of the zoo do not need: masks, frequencies, and a tied head. Like transformers,
// takes the list of files from the index; warns of a tensor that the index lists and no file has, or that another file has.
// `quantization` says how weights are quantized (quantization_config.h); null if they are not. `files` receives the files that were read. Throws Error naming the file.
CheckpointWeights read_weights(const std::filesystem::path& folder, const Family& family, Head head,
                               const nlohmann::json& quantization, MappedFiles* files = nullptr);

// Lists names for a message, at most 10: "a, b and 3 more".
std::string listed(const std::vector<std::string>& names);

}  // namespace genesis::models::hugging_face
