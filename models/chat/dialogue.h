// A conversation with a model, turn by turn. The text so far stays in the KV cache: a turn reads only what the template puts
// behind the tokens that both have.
#pragma once

#include "models/chat/chat_template.h"
#include "models/text/generator.h"
#include "models/tokenizer/tokenizer.h"

namespace genesis::chat {

struct DialogueOptions {
  std::string system = {};     // empty: none
  jinja::Dict variables = {};  // that the template sees: enable_thinking
  text::GenerateOptions generate = {};
  // Gives the generator to go on with when a turn makes a text of so many tokens with its answer; it may be another one, with a
  // longer cache and an empty text. Empty: always the first.
  std::function<text::Generator&(int64_t tokens)> make_room = {};
};

class Dialogue {
 public:
  // The generator, or those of make_room, outlive this; their options have `text`.
  Dialogue(ChatTemplate chat, text::Tokenizer tokenizer, text::Generator& generator, DialogueOptions options);

  struct Answer {
    text::GenerateResult result;
    int64_t prompt_tokens = 0;  // of the whole conversation with the new message
    int64_t reused_tokens = 0;  // of them, those that were read in earlier turns
  };
  // Throws Error, and the conversation is as before, where the template refuses the message or the conversation has become
  // longer than the context. An answer that `on_piece` ended is part of the conversation.
  Answer reply(const std::string& message, const std::function<bool(const text::Piece&)>& on_piece = {});

  void reset();  // forgets all but the system prompt
  const jinja::Value& messages() const { return messages_; }

 private:
  std::vector<int64_t> prompt_tokens(const jinja::Value& messages) const;

  ChatTemplate chat_;
  text::Tokenizer tokenizer_;
  text::Generator* generator_;
  DialogueOptions options_;
  jinja::Value messages_;
};

// {"messages": [...]} on one line: what training reads.
std::string messages_line(const jinja::Value& messages);

}  // namespace genesis::chat
