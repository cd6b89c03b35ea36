// Makes the tokenizer of a folder older than tokenizer.json from the files of the tokenizers of transformers that are written in
// Python: vocab.json and merges.txt, as GPT-2 has them, or tokenizer.model of SentencePiece, as the first Llamas have it.
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

// Returns a tokenizer.json that gives the ids of SentencePiece for tokenizer.model, with the added tokens of the same files. A text
// begins and ends with the tokens that add_bos_token and add_eos_token of tokenizer_config.json ask for, or the class of the
// tokenizer: those of Llama and Gemma begin it. Returns "" if there is no tokenizer.model, or if tokenizer_class is one that
// gives other ids than SentencePiece. Throws Error naming a file that cannot be read.
std::string tokenizer_json_of_pieces(const std::filesystem::path& folder);

}  // namespace genesis::text
