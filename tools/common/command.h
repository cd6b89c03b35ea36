// What a tool's command line can hold: options bound to variables, and commands with options of their own. Names are
// those of CLI11, which only command.cpp, tool.cpp and usage.cpp include: it takes longer to compile than most
// files that define options.
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

// Lives as long as its command. What changes it returns it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  Option* needs(const Option* other);
  Option* needs(const std::string& name);  // of an option that the command has already
  Option* excludes(const Option* other);
  Option* take_all();                          // it may be given again
  Option* allow_extra_args(bool allow);        // whether one name stands ahead of several values
  Option* expected(int least, int most);       // values
  Option* delimiter(char between);             // of the values in one word
  Option* type_name(const std::string& what);  // what the help calls the value
  Option* capture_default_str();               // the help shows the value that the variable has now
  Option* default_str(const std::string& text);
  size_t count() const;  // how often it was given

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

  // A name without dashes is that of a value without a name. Variables outlive the command, and keep what they have where the
  // option is not given.
  Option* add_option(const std::string& names, std::string& value, const std::string& what);
  Option* add_option(const std::string& names, std::filesystem::path& value, const std::string& what);
  Option* add_option(const std::string& names, std::vector<std::string>& values, const std::string& what);
  Option* add_option(const std::string& names, const Reader& read, const std::string& what);
  Option* add_flag(const std::string& names, bool& value, const std::string& what);
  Command* add_subcommand(const std::string& name, const std::string& what);
  void require_subcommand(size_t least, size_t most);
  void footer(const std::string& text);  // below the help
  void callback(const std::function<void()>& work);

  bool is_given(const std::string& option) const;
  std::vector<std::string> given_options() const;  // long names, or those of values without a name
  bool has_given_subcommand() const;
  CLI::App& app() const { return app_; }

 private:
  Option* kept(CLI::Option* option);

  CLI::App& app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace genesis::tools
