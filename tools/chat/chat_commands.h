// The commands of a chat: lines that begin with /. Used by tools/chat/chat_loop.cpp, which answers.
#pragma once

#include <functional>
#include <string>

#include "models/chat/dialogue.h"
#include "tools/chat/banner.h"

namespace genesis::tools {

// Returns the text of /help.
const std::string& chat_help();

// What a command asks of the loop once it is done.
enum class NextStep : uint8_t { kListen, kAnswerMessage, kAnswerAgain, kAnswerLast, kLeave };

struct CommandResult {
  NextStep next = NextStep::kListen;
  std::string message = {};  // to answer
};

class ChatCommands {
 public:
  // How files are read and written: with several ranks the first one does, and all get its bytes.
  struct Files {
    std::function<std::string(const std::string& path)> read;
    std::function<void(const std::string& path, const std::string& text)> write;
  };
  ChatCommands(chat::Dialogue& dialogue, SettingSources sources, Files files)
      : dialogue_(dialogue), sources_(std::move(sources)), files_(std::move(files)) {}

  // Runs "/undo" and the like, and says on stderr what it did. Throws Error where there is no such command or it cannot be done.
  CommandResult run(const std::string& line);

 private:
  using Method = CommandResult (ChatCommands::*)(const std::string& rest);
  struct Row {
    const char *name, *arguments, *what;
    Method method;
  };
  static const std::vector<Row>& rows();
  friend const std::string& chat_help();

  CommandResult regen(const std::string& rest);
  CommandResult undo(const std::string& rest);
  CommandResult reset(const std::string& rest);
  CommandResult system(const std::string& rest);
  CommandResult set(const std::string& rest);
  CommandResult load(const std::string& rest);
  CommandResult save(const std::string& rest);
  CommandResult help(const std::string& rest);
  CommandResult leave(const std::string& rest);

  chat::Dialogue& dialogue_;
  SettingSources sources_;
  Files files_;
};

}  // namespace genesis::tools
