#include "tools/common/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "tools/common/meant_words.h"
#include "tools/common/printable.h"

namespace genesis::tools {
namespace {

using Names = std::vector<std::string>;

const CLI::App& given_command(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

std::string full_name(const CLI::App& app) {
  const CLI::App& command = given_command(app);
  return &command == &app ? app.get_name() : app.get_name() + " " + command.get_name();
}

bool looks_like_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !std::isdigit(static_cast<unsigned char>(word[1])) &&
         word[1] != '.';
}

Names option_names(const CLI::App& command) {
  Names names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string no_option(const CLI::App& app, const std::string& word) {
  const CLI::App& command = given_command(app);
  const std::string name = word.substr(0, word.find('='));
  const Names known = option_names(command);
  if (&command != &app && std::ranges::find(known, name) != known.end())
    return fmt::format("option '{}' stands before the command: write it behind '{}'", name,
                       command.get_name());
  return fmt::format("there is no option '{}'{}", name, meant_option(full_name(app), name, known));
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

void fail_missing(const std::string& what) { fail_usage("{} is required", what); }

std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  const Names left = app.remaining(true);
  const Names commands = command_names(app);
  const bool takes_words =
      !app.get_options([](const CLI::Option* option) { return option->get_positional(); }).empty();
  if (!commands.empty() && !takes_words && app.get_subcommands().empty())
    if (const auto word = std::ranges::find_if_not(left, looks_like_option); word != left.end())
      return fmt::format("there is no command '{}'{}", *word, meant_command(app.get_name(), *word, commands));
  if (const auto word = std::ranges::find_if(left, looks_like_option); word != left.end())
    return no_option(app, *word);
  if (!left.empty()) return fmt::format("'{}' is one word too many", left.front());
  return error.what();
}

std::string with_help(const CLI::App& app, const std::string& message) {
  return fmt::format("{}{}ee `{} --help`", message, message.ends_with('?') ? " S" : "; s", full_name(app));
}

void check_no_empty_values(int argc, char** argv) {
  // An empty prompt gets an error that says why later. Empty --a or --b means the default options of a run to
  // compare.
  static constexpr const char* kMayBeEmpty[] = {"--prompt", "--a", "--b"};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], before = i > 1 ? argv[i - 1] : "";
    const auto is_word = [&](const char* name) { return before == name; };
    if (std::ranges::any_of(kMayBeEmpty, is_word)) continue;
    if (word.empty())
      fail_usage("{}: there is an empty value where a name or a number was expected",
                 looks_like_option(before) ? before : fmt::format("argument {}", i));
    if (word.starts_with("--") && word.find('=') + 1 == word.size())
      fail_usage("{}: there is no value behind the '='", word);
  }
}

void check_rules(const Command& command, const std::vector<OptionRule>& rules) {
  for (const OptionRule& rule : rules) {
    if (!rule.holds) continue;
    const auto is_listed = [&](const std::string& option) {
      return std::ranges::find(rule.options, option) != rule.options.end();
    };
    for (const std::string& option :
         rule.which == OptionRule::kThese ? rule.options : command.given_options())
      if (rule.which == OptionRule::kThese ? command.is_given(option) : !is_listed(option))
        fail_usage("{} does nothing {}", option, rule.why);
  }
}

}  // namespace genesis::tools
