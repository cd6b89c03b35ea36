// The tokenizer of a folder from before tokenizer.json: vocab.json and merges.txt, as GPT-2 came with them and as the tokenizers
// of transformers that are written in Python save them.
#pragma once

#include <filesystem>
#include <string>

namespace genesis::text {

// As a tokenizer.json: byte-level BPE that cuts words as GPT-2 or Qwen2 do, which tokenizer_class of tokenizer_config.json
// tells, or else model_type of config.json; with the added tokens of tokenizer_config.json and added_tokens.json, the special
// ones that it and special_tokens_map.json name, and <|endoftext|>; with add_prefix_space, add_bos_token and add_eos_token of
// tokenizer_config.json, as transformers reads them. Empty where one of the two files is missing, or they are of
// another kind. Throws Error naming the file that cannot be read.
std::string tokenizer_json_of_vocabulary(const std::filesystem::path& folder);

}  // namespace genesis::text
