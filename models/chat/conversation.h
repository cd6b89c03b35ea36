// Turns conversations into tokens to train on. Only the assistant's tokens are targets of the loss.
#pragma once

#include "models/chat/chat_template.h"
#include "models/tokenizer/tokenizer.h"

namespace genesis::chat {

struct Sample {
  std::vector<int32_t> tokens;
  std::vector<bool> is_target;  // per token: true if the model is to learn to write it
};

class SampleMaker {
 public:
  SampleMaker(ChatTemplate chat, text::Tokenizer tokenizer)
      : chat_(std::move(chat)), tokenizer_(std::move(tokenizer)) {}

  // Returns samples whose targets are the answers of the assistant. If the template marks answers with {% generation %}, there is
  // one sample. Otherwise an answer is the text that it adds to the messages before it, rendered with the generation prompt, up
  // to its last special token.
  //
  // A template may render an answer differently once later messages follow: Qwen3's omits its reasoning. Then each answer is
  // learned in a sample of its own, behind exactly the text that the model will have read when it writes the answer; samples are
  // in the order of their last answers. Answers whose rendering stays the same share a sample.
  //
  // An answer at the beginning of a conversation is found even if the template cannot render an empty list: it begins behind the
  // first generation prompt.
  //
  // An answer whose message has "weight": 0, as in OpenAI's files, or "train": false, as in axolotl's, is read and not learned.
  // `variables` are further template variables, such as tools.
  //
  // Without {% generation %}, the conversation is rendered up to each answer, which takes time quadratic in its length.
  //
  // Throws Error if there is no answer to learn, if a weight is neither 0 nor 1 or "train" is not a boolean, if an answer does
  // not begin with the generation prompt, and if rendering up to each answer would take too long.
  std::vector<Sample> of_messages(const jinja::Value& messages, const jinja::Dict& variables = {}) const;
  // Returns a sample of plain text: all of it is learned, and its end if the folder names an eos_token.
  Sample of_text(std::string_view text) const;

 private:
  Sample sample_of(const jinja::Rendered& rendered, bool by_prefixes) const;

  ChatTemplate chat_;
  text::Tokenizer tokenizer_;
};

// Returns the byte range of each token in the text that was encoded. Throws Error if the tokens do not spell this text because
// the tokenizer's normalization has changed it.
std::vector<jinja::Span> token_spans(const text::Tokenizer& tokenizer, std::string_view text,
                                     const std::vector<int64_t>& ids);

}  // namespace genesis::chat
