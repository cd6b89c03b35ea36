// The command line of a tool: options bound to variables, and subcommands with options of their own. The method names
// are those of CLI11, which only command.cpp, tool.cpp and usage.cpp include, because it takes longer to compile than
// most files that define options.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace genesis::tools {

// An option of a command, which owns it. Each setter returns the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  Option* needs(const Option* other);
  Option* needs(const std::string& name);  // the name of an option that the command already has
  Option* excludes(const Option* other);
  Option* take_all();                          // may be given again; all values are kept
  Option* allow_extra_args(bool allow);        // true: several values may follow one name
  Option* expected(int least, int most);       // number of values
  Option* delimiter(char between);             // separates the values within one word
  Option* type_name(const std::string& what);  // name of the value in the help
  Option* capture_default_str();               // the help shows the variable's current value
  Option* default_str(const std::string& text);
  size_t count() const;  // number of times it was given

 private:
  CLI::Option* option_;
};

class Command {
 public:
  using Reader = std::function<void(const std::vector<std::string>& words)>;

  explicit Command(CLI::App& app);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Adds an option. A name without dashes adds a positional value. The variable must outlive the command, and keeps
  // its value if the option is not given.
  Option* add_option(const std::string& names, std::string& value, const std::string& what);
  Option* add_option(const std::string& names, std::filesystem::path& value, const std::string& what);
  Option* add_option(const std::string& names, std::vector<std::string>& values, const std::string& what);
  Option* add_option(const std::string& names, const Reader& read, const std::string& what);
  Option* add_flag(const std::string& names, bool& value, const std::string& what);
  Command* add_subcommand(const std::string& name, const std::string& what);
  void require_subcommand(size_t least, size_t most);
  void footer(const std::string& text);  // text below the help
  void callback(const std::function<void()>& work);

  bool is_given(const std::string& option) const;
  std::vector<std::string> given_options() const;  // long names; for positional values, their names
  bool has_given_subcommand() const;
  CLI::App& app() const { return app_; }

 private:
  Option* kept(CLI::Option* option);

  CLI::App& app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace genesis::tools
