// Models by name: fetches the files of a repository of Hugging Face's Hub into the cache that its Python package shares.
//
//     const std::string path = hub::fetch("Qwen/Qwen2.5-0.5B-Instruct", hub::settings());
//
// models::open_any() opens the path.
//
// Rules:
//   - Files are found and kept as huggingface_hub does it: blobs/ETAG, refs/REVISION, snapshots/COMMIT/NAME.
//   - A file is complete when its SHA-256 (large files) or its digest in git (small ones) is the one that the hub names. What an
//     interrupted download has is continued.
//   - The token is sent to the endpoint only. A redirect is followed to the endpoint's own host, and for the endpoint
//     huggingface.co also to hosts below huggingface.co and hf.co, by https; any other one is an Error.
//   - Files that Python's pickle writes are never fetched.
#pragma once

#include <string>

#include "models/hub/hub_settings.h"

namespace genesis::hub {

// Fetches a model, "OWNER/NAME", "OWNER/NAME@REVISION", or either with ":FILE" or ":QUANT", which choose a GGUF file: ":Q4_K_M".
// Returns the folder of its snapshot, or the path of the GGUF file. Throws Error that says what is missing: the repository, a
// right to read it, a file of weights, a connection.
std::string fetch(const std::string& name, const HubSettings& settings);

}  // namespace genesis::hub
