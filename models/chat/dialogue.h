// Holds a conversation with a model, turn by turn. The text so far stays in the KV cache: a turn reads only the tokens behind the
// common prefix of the cache and the newly rendered conversation.
#pragma once

#include "models/chat/chat_template.h"
#include "models/generation/generator.h"
#include "models/tokenizer/tokenizer.h"

namespace genesis::chat {

struct DialogueOptions {
  std::string system = {};     // system prompt; empty: none
  jinja::Dict variables = {};  // template variables, such as enable_thinking
  text::GenerateOptions generate = {};
  // Returns the generator to continue with if the conversation and its answer may take `tokens` tokens. It may be a new one with
  // a longer cache that holds no text yet. Empty: always the first generator.
  std::function<text::Generator&(int64_t tokens)> make_room = {};
};

class Dialogue {
 public:
  // The generator, or those of make_room, must outlive this object; their options must have `text`.
  Dialogue(ChatTemplate chat, text::Tokenizer tokenizer, text::Generator& generator, DialogueOptions options);

  struct Answer {
    text::GenerateResult result;
    int64_t prompt_tokens = 0;  // whole conversation including the new message
    int64_t reused_tokens = 0;  // tokens of the prompt that were read in earlier turns
  };
  // Answers a message. Throws Error, and leaves the conversation unchanged, if the template refuses the message or the
  // conversation exceeds the context. An answer that `on_piece` stopped is part of the conversation.
  Answer reply(const std::string& message, const std::function<bool(const text::Piece&)>& on_piece = {});

  // Answers the last user message again, replacing its answer. Throws Error if there is no user message yet, and as reply() does.
  Answer answer_again(const std::function<bool(const text::Piece&)>& on_piece = {});
  // Returns true if the last message is not answered yet, as in a conversation that was loaded.
  bool waits_for_answer() const;

  // Removes the last user message and everything behind it. Returns false if there is none.
  bool undo();
  void reset();  // removes all messages but the system prompt
  // Sets the system message of this conversation and of those after a reset. An empty one is left out.
  void set_system(const std::string& system);
  const std::string& system() const { return options_.system; }
  // Continues a given conversation: takes its messages, and its variables in place of those of the same name. Its system prompt,
  // if it has one, stays after a reset.
  void set_conversation(const Conversation& conversation);

  const jinja::Value& messages() const { return messages_; }
  const text::GenerateOptions& generate_options() const { return options_.generate; }
  void set_generate_options(const text::GenerateOptions& options) { options_.generate = options; }

 private:
  // Answers `asked`, which ends with a user message or a tool result.
  Answer answer(const jinja::Value& asked, const std::function<bool(const text::Piece&)>& on_piece);
  std::vector<int64_t> prompt_tokens(const jinja::Value& messages) const;

  ChatTemplate chat_;
  text::Tokenizer tokenizer_;
  text::Generator* generator_;
  DialogueOptions options_;
  jinja::Value messages_;
};

// Returns {"messages": [...]} on one line, which training can read.
std::string messages_line(const jinja::Value& messages);

}  // namespace genesis::chat
