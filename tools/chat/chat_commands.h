// The commands of a chat: lines that begin with /. ChatLoop executes the NextStep that a command returns.
#pragma once

#include <functional>
#include <string>

#include "models/chat/dialogue.h"
#include "tools/chat/banner.h"

namespace genesis::tools {

const std::string& chat_help();

// Tells the chat loop what to do after a command.
enum class NextStep : uint8_t { kListen, kAnswerMessage, kAnswerAgain, kAnswerLast, kLeave };

struct CommandResult {
  NextStep next = NextStep::kListen;
  std::string message = {};  // the message to answer
};

class ChatCommands {
 public:
  // Reads and writes files. With several ranks only the first accesses the file system, and all ranks get the bytes.
  struct Files {
    std::function<std::string(const std::string& path)> read;
    std::function<void(const std::string& path, const std::string& text)> write;
  };
  ChatCommands(chat::Dialogue& dialogue, SettingSources sources, Files files)
      : dialogue_(dialogue), sources_(std::move(sources)), files_(std::move(files)) {}

  // Runs a command such as "/undo" and reports on stderr. Throws Error if there is no such command or it cannot be
  // done.
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
