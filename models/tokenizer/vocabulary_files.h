// Makes the tokenizer of a folder older than tokenizer.json from vocab.json and merges.txt, the files of GPT-2 and of the
// tokenizers of transformers that are written in Python.
#pragma once

#include <filesystem>
#include <string>

namespace genesis::text {

// Returns a tokenizer.json of byte-level BPE that splits words as its family does (models/families.h), according to tokenizer_class of
// tokenizer_config.json, else to model_type of config.json. It contains the added tokens of tokenizer_config.json and
// added_tokens.json, the special tokens that tokenizer_config.json and special_tokens_map.json name, and <|endoftext|>. It
// applies add_prefix_space, add_bos_token and add_eos_token of tokenizer_config.json as transformers does. Returns "" if one of
// the two files is missing, or the tokenizer is of another kind. Throws Error naming a file that cannot be read.
std::string tokenizer_json_of_vocabulary(const std::filesystem::path& folder);

}  // namespace genesis::text
