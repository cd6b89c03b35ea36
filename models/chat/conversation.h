// Conversations as tokens to learn from: which of them the assistant says, and so are targets of the loss.
#pragma once

#include "models/chat/chat_template.h"
#include "models/tokenizer/tokenizer.h"

namespace genesis::chat {

struct Sample {
  std::vector<int32_t> tokens;
  std::vector<bool> is_target;  // one a token: whether the model is to learn to write it
};

class SampleMaker {
 public:
  SampleMaker(ChatTemplate chat, text::Tokenizer tokenizer)
      : chat_(std::move(chat)), tokenizer_(std::move(tokenizer)) {}

  // What the assistant says: what the template marks with {% generation %}; where it marks nothing, what an answer adds to
  // the rendered messages before it with the generation prompt, up to its last special token.
  //
  // Throws Error where nobody answers, and where the template renders earlier messages in another way once later ones are
  // there, so that what was learnt would not be what is read.
  Sample of_messages(const jinja::Value& messages) const;
  // Plain text: all of it is learnt, and the end of it where the folder names an eos_token.
  Sample of_text(std::string_view text) const;

 private:
  ChatTemplate chat_;
  text::Tokenizer tokenizer_;
};

// Where tokens stand in the text that they were made from, in bytes. Throws Error where they are not this text's: a
// normalization has changed it.
std::vector<jinja::Span> token_spans(const text::Tokenizer& tokenizer, std::string_view text,
                                     const std::vector<int64_t>& ids);

}  // namespace genesis::chat
