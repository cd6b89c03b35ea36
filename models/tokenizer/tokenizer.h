// Text to tokens and back, as models of Hugging Face have it: a tokenizer.json with BPE over bytes, which GPT-2, Llama 3 and
// Qwen2 to Qwen3 come with, or over characters. Ids are those that the library `tokenizers` gives.
//
// Unicode is that of `tokenizers` 0.23, whatever PCRE2 and utf8proc have (newer_characters.h): classes of 16.0, and the NFC
// of 9.0, which leaves newer marks (U+10F46, say) where they stand.
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

// Never changes, so that threads may share one; copies are the same tokenizer.
class Tokenizer {
 public:
  // A tokenizer.json, or a folder with one. Throws Error that names the file and what is wrong with it, or all that it asks
  // for and is not supported.
  static Tokenizer load(const std::filesystem::path& path);
  // From the bytes of such a file. `name` is what messages about it call it: "tokenizer FILE".
  static Tokenizer parse(std::string_view json, const std::string& name = "");

  // Invalid UTF-8 becomes U+FFFD first. `add_special_tokens`: those that the file puts around every text. Throws Error
  // where the file asks for far more work than the size of the text explains, and for a character that is no token where the
  // file's unk_token is none either.
  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // UTF-8; bytes that make no character become U+FFFD. Ids without a token are no text. Throws Error where the file makes far
  // more text of a token than its size explains.
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens = true) const;

  // One more than the largest id.
  int64_t vocab_size() const;
  // Tokens as the file writes them: "\u0120the" is " the" (models/tokenizer/byte_alphabet.h).
  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  // True for the file's added tokens, which a text is searched for before it is cut into words.
  bool is_added(int64_t id) const;

 private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

// Text from tokens that come one by one: together what decode() gives, and never a part of a character. Text whose characters
// hang on later tokens waits for those.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special_tokens = true)
      : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

  std::string add(int64_t id);  // the text that is whole by now
  std::string finish();         // U+FFFD for a character that nothing completed

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  Decoder::State state_;
};

}  // namespace genesis::text
