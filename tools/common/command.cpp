#include "tools/common/command.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace genesis::tools {

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::needs(const Option* other) {
  option_->needs(other->option_);
  return this;
}

Option* Option::needs(const std::string& name) {
  option_->needs(name);
  return this;
}

Option* Option::excludes(const Option* other) {
  option_->excludes(other->option_);
  return this;
}

Option* Option::take_all() {
  option_->take_all();
  return this;
}

Option* Option::allow_extra_args(bool allow) {
  option_->allow_extra_args(allow);
  return this;
}

Option* Option::expected(int least, int most) {
  option_->expected(least, most);
  return this;
}

Option* Option::delimiter(char between) {
  option_->delimiter(between);
  return this;
}

Option* Option::type_name(const std::string& what) {
  option_->type_name(what);
  return this;
}

Option* Option::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Option* Option::default_str(const std::string& text) {
  option_->default_str(text);
  return this;
}

size_t Option::count() const { return option_->count(); }

Command::Command(CLI::App& app) : app_(app) {}
Command::~Command() = default;

Option* Command::kept(CLI::Option* option) {
  return options_.emplace_back(std::make_unique<Option>(option)).get();
}

Option* Command::add_option(const std::string& names, std::string& value, const std::string& what) {
  return kept(app_.add_option(names, value, what));
}

Option* Command::add_option(const std::string& names, std::filesystem::path& value, const std::string& what) {
  return kept(app_.add_option(names, value, what));
}

Option* Command::add_option(const std::string& names, std::vector<std::string>& values,
                            const std::string& what) {
  return kept(app_.add_option(names, values, what));
}

Option* Command::add_option(const std::string& names, const Reader& read, const std::string& what) {
  const CLI::callback_t take = [read](const CLI::results_t& words) {
    read(words);
    return true;
  };
  return kept(app_.add_option(names, take, what));
}

Option* Command::add_flag(const std::string& names, bool& value, const std::string& what) {
  return kept(app_.add_flag(names, value, what));
}

Command* Command::add_subcommand(const std::string& name, const std::string& what) {
  return commands_.emplace_back(std::make_unique<Command>(*app_.add_subcommand(name, what))).get();
}

void Command::require_subcommand(size_t least, size_t most) { app_.require_subcommand(least, most); }

void Command::footer(const std::string& text) { app_.footer(text); }

void Command::callback(const std::function<void()>& work) { app_.callback(work); }

bool Command::is_given(const std::string& option) const { return app_.count(option) > 0; }

std::vector<std::string> Command::given_options() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(app_).get_options())
    if (option->count() > 0) names.push_back(option->get_name());
  return names;
}

bool Command::has_given_subcommand() const { return !app_.get_subcommands().empty(); }

}  // namespace genesis::tools
