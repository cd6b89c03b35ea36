// Converts text to tokens and back like Hugging Face's library `tokenizers`, with the same ids: reads a tokenizer.json with BPE
// over bytes, as GPT-2, Llama 3 and Qwen2 to Qwen3 have it, or over characters (Llama 2, Mistral, Gemma), with Unigram
// (XLM-RoBERTa, T5), WordPiece (BERT) or WordLevel.
//
// Unicode versions are those of `tokenizers` 0.23, whatever PCRE2 and utf8proc have (newer_characters.h): character classes of
// 16.0, and the NFC of 9.0, which does not reorder newer marks such as U+10F46.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer/decoder.h"

namespace genesis::text {

// A tokenizer. It is immutable, so that threads may share one; copies share its data.
class Tokenizer {
 public:
  // Loads a tokenizer.json, or a folder with one. Throws Error that names the file and says what is invalid in it, or lists
  // everything that is not supported.
  static Tokenizer load(const std::filesystem::path& path);
  // Reads the bytes of such a file. Messages call it `name`: "tokenizer FILE".
  static Tokenizer parse(std::string_view json, const std::string& name = "");

  // Returns the tokens of a text. Invalid UTF-8 becomes U+FFFD first. `add_special_tokens` adds the tokens that the file puts
  // around every text. Throws Error if the file demands far more work than the size of the text explains, and for a character
  // that is not a token if the file's unk_token is not one either.
  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // Returns UTF-8. Bytes that do not form a character become U+FFFD; ids without a token are skipped. Throws Error if the file
  // makes far more text of a token than its size explains.
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens = true) const;

  // Returns the largest id plus one.
  int64_t vocab_size() const;
  // These take and return tokens as the file writes them: "\u0120the" is " the" (models/tokenizer/unicode/byte_alphabet.h).
  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  // Returns true for the file's added tokens, which are searched in a text before it is split into words.
  bool is_added(int64_t id) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// Decodes tokens one by one. The concatenated result is that of decode(), and never ends inside of a character. Text that depends
// on later tokens is held back.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens = true)
      : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

  std::string add(int64_t id);  // returns the text that is complete by now
  std::string finish();         // returns U+FFFD for an incomplete character

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  Decoder::State state_;
};

}  // namespace genesis::text
