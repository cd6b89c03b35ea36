// Names of models on a hub, and the choice of the files that a model needs.
#pragma once

#include <string>
#include <vector>

namespace genesis::hub {

struct RepositoryName {
  std::string id;                 // "Qwen/Qwen2.5-0.5B-Instruct"
  std::string revision = "main";  // a branch, a tag or a commit
  std::string wanted = {};        // a file or a quantization; empty: none

  std::string folder() const;  // "models--Qwen--Qwen2.5-0.5B-Instruct"
};

// Parses "OWNER/NAME[@REVISION][:FILE or QUANT]". Throws SettingError.
RepositoryName parse_name(const std::string& name);

// Returns the files to fetch of those that the repository has: the weights as safetensors with the settings and the tokenizer, or
// the GGUF file that was asked for with its further parts, the first one first. Throws Error that lists what there is if nothing
// fits, if several do, and for files that Python's pickle writes.
std::vector<std::string> choose_files(const RepositoryName& name, const std::vector<std::string>& files);

// True for a GGUF file.
bool is_gguf_name(const std::string& file);

// Throws Error if a name that came from a hub could lead out of a folder.
void check_file_name(const std::string& file);

}  // namespace genesis::hub
