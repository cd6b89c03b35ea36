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

  // Answers the last message of the user once more, in place of what was answered before. Throws Error where the user has said
  // nothing yet, and as reply() does.
  Answer answer_again(const std::function<bool(const text::Piece&)>& on_piece = {});
  // Returns true if the last message is not answered yet, as in a conversation that was loaded.
  bool waits_for_answer() const;

  // Forgets the last message of the user and all behind it. False where there is none.
  bool undo();
  void reset();  // forgets all but the system prompt
  // Sets the system message of this conversation and of those after a reset; an empty one is left out.
  void set_system(const std::string& system);
  const std::string& system() const { return options_.system; }
  // Goes on from a conversation of somebody else: its messages, and the variables that it brings in place of those of the same name.
  // A system prompt that it begins with stays after a reset.
  void set_conversation(const Conversation& conversation);

  const jinja::Value& messages() const { return messages_; }
  const text::GenerateOptions& generate_options() const { return options_.generate; }
  void set_generate_options(const text::GenerateOptions& options) { options_.generate = options; }

 private:
  // `asked` ends with a message of the user, or with what a tool gave.
  Answer answer(const jinja::Value& asked, const std::function<bool(const text::Piece&)>& on_piece);
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
