// A conversation at a terminal or over a pipe: reads messages and commands, and writes answers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "executor/distributed/world.h"
#include "models/chat/dialogue.h"
#include "tools/chat/banner.h"
#include "tools/chat/chat_commands.h"
#include "tools/chat/line_input.h"
#include "tools/chat/message_lines.h"
#include "tools/common/terminal_style.h"
#include "tools/common/tool.h"

namespace genesis::tools {

struct ChatLoopOptions {
  Output out;
  bool is_quiet = false;
  std::string banner = {};  // lines that are shown first at a terminal
  SettingSources sources = {};
  // Runs the work of an answer. With --nonfinite-page it writes the page if a value is not finite.
  std::function<void(const std::function<void()>& work)> around_answer = [](const auto& work) { work(); };
};

// Runs on all ranks: rank 0 reads the input, and all ranks compute the answers.
class ChatLoop {
 public:
  ChatLoop(chat::Dialogue& dialogue, World& world, ChatLoopOptions options);

  // Runs until the input ends or the user leaves. Returns false if a line of a pipe could not be answered.
  bool run();

 private:
  using Reply = std::function<chat::Dialogue::Answer(const std::function<bool(const text::Piece&)>&)>;

  LineReader::Event next(std::string& line);
  std::string prompt() const;
  void take(const std::string& line);
  void take_end();
  void attempt(const std::function<void()>& work);
  void answer_or_do(const Message& message);
  void command(const std::string& line);
  void answer(const std::string& message);
  void answer_again();
  void write_answer(const Reply& reply);
  void print_numbers(const text::GenerateResult& result, bool interrupted) const;
  bool is_interrupted();
  void forget_interrupts();
  void at_prompt_interrupted(const std::string& discarded);
  ChatCommands::Files files();

  chat::Dialogue& dialogue_;
  World& world_;
  const ChatLoopOptions options_;
  const bool is_terminal_;  // true if stdin of rank 0 is a terminal
  const bool shows_more_;   // banner and numbers, for a person who also sees the answers
  const TerminalStyle style_;
  ChatCommands commands_;
  MessageLines lines_;
  std::unique_ptr<LineReader> reader_;
  InterruptCount interrupts_;
  bool done_ = false;
  int interrupts_before_ = 0;  // the interrupts there were when the reading of the line began
  int pieces_ = 0;             // pieces of text of the current answer
  int failures_ = 0;
  uint64_t regenerated_ = 0;  // number of times the last message was answered again
};

}  // namespace genesis::tools
