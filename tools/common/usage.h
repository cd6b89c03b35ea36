// Reports wrong usage: a command line that the tool cannot interpret. The exit code is 2.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "schema/core/setting_error.h"
#include "tools/common/command.h"

namespace CLI {
class ParseError;
}

namespace genesis::tools {

// Settings of a job that it cannot use (SettingError) are reported in the same way.
class UsageError : public SettingError {
 public:
  using SettingError::SettingError;
};

template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws UsageError: "a model file is required".
[[noreturn]] void fail_missing(const std::string& what);

// Ends the tool with this exit code, after everything was printed.
class ExitCode : public std::runtime_error {
 public:
  explicit ExitCode(int code) : runtime_error("ended early"), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

std::vector<std::string> command_names(const CLI::App& app);
// Returns a message for an error of CLI11: it names the word and the most similar known one.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error);
// Returns the message followed by "; see `genesis-run train --help`", for the given command.
std::string with_help(const CLI::App& app, const std::string& message);

// Throws UsageError for an empty value. A script's variable may be unset, and the value would count as not given.
void check_no_empty_values(int argc, char** argv);

// A row of a table of options that exclude others or leave them without effect. While `holds`, none of the options (or, with
// kAllBut, none but these) may be given. `why` ends the sentence "--size does nothing ...": "with --list-passes".
struct OptionRule {
  enum Which : bool { kThese, kAllBut };
  bool holds;
  std::vector<std::string> options;
  std::string why;
  Which which = kThese;
};
// Throws UsageError for the first row with an option that was given and does nothing: "--size does nothing without --check
// DEVICE".
void check_rules(const Command& command, const std::vector<OptionRule>& rules);

}  // namespace genesis::tools
