// Wrong usage of a tool: what a command line says that the tool cannot mean. Exit code 2.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "schema/core/error.h"
#include "tools/common/command.h"

namespace CLI {
class ParseError;
}

namespace genesis::tools {

class UsageError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

// Throws UsageError: "a model file is required".
[[noreturn]] void fail_missing(const std::string& what);

// Ends the tool with this exit code: what there is to say was said already.
class ExitCode : public std::runtime_error {
 public:
  explicit ExitCode(int code) : runtime_error("ended early"), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// What to say of what CLI11 could not make sense of: names the word, and the nearest that there is.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error);
// The message with "; see `genesis-run train --help`" behind it, for the command that was given.
std::string with_help(const CLI::App& app, const std::string& message);

// Values that are empty would be taken as not given: a script's variable that is not set should be found out.
void check_no_empty_values(int argc, char** argv);

// Throws UsageError when an option was given that is not one of `read`: it would do nothing. `why` ends the
// sentence "--size does nothing ...": "with --list-passes".
void check_only(const Command& command, std::initializer_list<std::string_view> read, const std::string& why);
// Throws UsageError when `option` was given: "--size does nothing without --check DEVICE".
void check_not_given(const Command& command, const std::string& option, const std::string& why);

}  // namespace genesis::tools
