#include "tools/chat/chat_commands.h"

#include <fmt/core.h>

#include <cstdlib>
#include <iostream>

#include "models/chat/chat_template.h"
#include "models/text/sampling_settings.h"
#include "schema/file/json_text.h"
#include "schema/graph/near_names.h"
#include "tools/common/printable.h"

namespace genesis::tools {
namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n"), end = text.find_last_not_of(" \t\n");
  return begin == std::string::npos ? "" : text.substr(begin, end + 1 - begin);
}

void check_nothing_behind(const char* command, const std::string& rest) {
  if (!rest.empty()) fail("{} takes nothing behind it, and not {}", command, shortened(rest));
}

// Returns the path without quotes and with ~ replaced by the home folder, as a shell would have done.
std::string path_of(const std::string& typed) {
  std::string path = typed;
  if (path.size() > 1 && (path[0] == '"' || path[0] == '\'') && path.back() == path[0])
    path = path.substr(1, path.size() - 2);
  const char* home = std::getenv("HOME");
  if (home && path.starts_with("~/")) path = home + path.substr(1);
  return path;
}

// Returns true if the text is a JSON list of messages, or an object with such a list. Any other text is itself a
// message.
bool is_conversation(const std::string& text) {
  const nlohmann::json json = try_parse_json_text(text);
  if (json.is_object()) return json.contains("messages");
  return json.is_array() && !json.empty() && json[0].is_object() && json[0].contains("role");
}

bool is_json_lines(const std::string& path) { return path.ends_with(".jsonl"); }

}  // namespace

const std::vector<ChatCommands::Row>& ChatCommands::rows() {
  static const std::vector<Row> rows = {
      {"/regen", "", "answer the last message again, with the next seed", &ChatCommands::regen},
      {"/undo", "", "forget the last message and its answer", &ChatCommands::undo},
      {"/reset", "", "begin a new conversation, with the same system prompt", &ChatCommands::reset},
      {"/system", " [TEXT]",
       "show or change the instructions for the model, ahead of the conversation; \"\": none",
       &ChatCommands::system},
      {"/set", " [NAME VALUE]",
       "show how tokens are chosen, or change it: temperature, top_k, seed, max_tokens, ...",
       &ChatCommands::set},
      {"/load", " FILE", "go on from a conversation (JSON), or send a file of text as a message",
       &ChatCommands::load},
      {"/save", " FILE", "write the conversation as a line of JSON, as `genesis-run train` reads it",
       &ChatCommands::save},
      {"/help", "", "this list", &ChatCommands::help},
      {"/exit", "", "leave; so do Ctrl-D, and Ctrl-C at an empty prompt, twice", &ChatCommands::leave},
  };
  return rows;
}

const std::string& chat_help() {
  static const std::string help = [] {
    std::string lines;
    for (const auto& row : ChatCommands::rows())
      lines += fmt::format("{:<20}  {}\n", std::string(row.name) + row.arguments, row.what);
    return lines +
           "Several lines: write them between \"\"\" and \"\"\". On a terminal, a line that ends with \\ "
           "goes on in the next, and\n"
           "a paste is taken as a whole. Ctrl-C stops an answer. A message that begins with / is written "
           "with //.\n";
  }();
  return help;
}

CommandResult ChatCommands::run(const std::string& line) {
  const size_t space = line.find_first_of(" \t\n");
  const std::string name = line.substr(0, space),
                    rest = space == std::string::npos ? "" : trimmed(line.substr(space + 1));
  std::vector<std::string> known;
  for (const Row& row : rows()) {
    if (name == row.name) return (this->*row.method)(rest);
    known.emplace_back(row.name);
  }
  if (name == "/quit" || name == "/bye") return leave(rest);
  fail("there is no command {}{}: /help lists them, and // begins a message with /", shortened(name),
       did_you_mean(name, known));
}

CommandResult ChatCommands::regen(const std::string& rest) {
  check_nothing_behind("/regen", rest);
  if (dialogue_.generate_options().temperature == 0)
    std::cerr << "the answer will be the same, as the likeliest token is always taken: /set temperature 0.8 "
                 "changes that\n";
  return {NextStep::kAnswerAgain};
}

CommandResult ChatCommands::undo(const std::string& rest) {
  check_nothing_behind("/undo", rest);
  if (!dialogue_.undo()) fail("there is nothing to undo: the conversation has no message of the user");
  std::cerr << fmt::format("the conversation has {} messages now\n",
                           dialogue_.messages().sequence()->items.size());
  return {};
}

CommandResult ChatCommands::reset(const std::string& rest) {
  check_nothing_behind("/reset", rest);
  dialogue_.reset();
  return {};
}

CommandResult ChatCommands::system(const std::string& rest) {
  if (rest.empty()) {
    const std::string& system = dialogue_.system();
    std::cerr << (system.empty() ? "there is no system prompt: /system TEXT gives one"
                                 : printable_lines(system))
              << "\n";
    return {};
  }
  dialogue_.set_system(rest == "\"\"" || rest == "''" ? "" : rest);
  std::cerr << (dialogue_.system().empty() ? "there is no system prompt now\n"
                                           : "the system prompt is changed\n");
  return {};
}

CommandResult ChatCommands::set(const std::string& rest) {
  text::GenerateOptions options = dialogue_.generate_options();
  if (!rest.empty()) {
    const size_t end = rest.find_first_of(" \t=");
    const std::string name = rest.substr(0, end),
                      value = end == std::string::npos ? "" : trimmed(rest.substr(end + 1));
    if (value.empty()) fail("/set needs a name and a value: /set temperature 0.7");
    text::set_sampling(options, name, value);
    text::check_options(options);
    dialogue_.set_generate_options(options);
    sources_.given[text::setting_name(name)] = "/set";
  }
  std::cerr << fmt::format("{}; max_tokens {}\n", sampling_text(options, sources_), options.max_tokens);
  return {};
}

CommandResult ChatCommands::load(const std::string& rest) {
  if (rest.empty()) fail("/load needs the name of a file");
  const std::string path = path_of(rest), text = files_.read(path);
  if (!is_conversation(text)) {
    if (is_json_lines(path))
      fail("{} is not one conversation: expected one line of JSON with \"messages\", as /save writes it",
           path);
    if (trimmed(text).empty()) fail("{} is empty", path);
    return {NextStep::kAnswerMessage, text};
  }
  dialogue_.set_conversation(
      with_context([&] { return chat::parse_conversation(text); }, [&] { return path; }));
  std::cerr << fmt::format("the conversation has {} messages now, those of {}\n",
                           dialogue_.messages().sequence()->items.size(), printable(path));
  return {dialogue_.waits_for_answer() ? NextStep::kAnswerLast : NextStep::kListen};
}

CommandResult ChatCommands::save(const std::string& rest) {
  if (rest.empty()) fail("/save needs the name of a file");
  const std::string path = path_of(rest);
  files_.write(path, chat::messages_line(dialogue_.messages()) + "\n");
  std::cerr << "saved " << printable(path) << "\n";
  return {};
}

CommandResult ChatCommands::help(const std::string& /*rest*/) {
  std::cerr << chat_help();
  return {};
}

CommandResult ChatCommands::leave(const std::string& /*rest*/) { return {NextStep::kLeave}; }

}  // namespace genesis::tools
