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

  // What the assistant says: what the template marks with {% generation %}, in one sample; where it marks nothing, what an
  // answer adds to the rendered messages before it with the generation prompt, up to its last special token.
  //
  // A template may render an answer in another way once later messages are there: Qwen3's leaves out what was thought. Then
  // each answer is learnt in a sample of its own, behind what the model will have read when it is to write it; samples are
  // in the order of their last answers. Answers that stay as they were share a sample.
  //
  // An answer that a conversation begins with is found where the template renders no empty list, too: behind the first generation
  // prompt.
  //
  // An answer whose message has "weight": 0, as in OpenAI's files, or "train": false, as in axolotl's, is read and not learnt.
  // `variables` is what else the template sees: tools.
  //
  // Without {% generation %}, the conversation is rendered up to each answer, which takes time with the square of its length.
  //
  // Throws Error where no answer is to be learnt, where a weight is neither 0 nor 1 or "train" is no boolean, where an answer does not
  // begin with the generation prompt, and where rendering up to each answer would take too long.
  std::vector<Sample> of_messages(const jinja::Value& messages, const jinja::Dict& variables = {}) const;
  // Plain text: all of it is learnt, and the end of it where the folder names an eos_token.
  Sample of_text(std::string_view text) const;

 private:
  Sample sample_of(const jinja::Rendered& rendered, bool by_prefixes) const;

  ChatTemplate chat_;
  text::Tokenizer tokenizer_;
};

// Where tokens stand in the text that they were made from, in bytes. Throws Error where they are not this text's: a
// normalization has changed it.
std::vector<jinja::Span> token_spans(const text::Tokenizer& tokenizer, std::string_view text,
                                     const std::vector<int64_t>& ids);

}  // namespace genesis::chat
