// Reports wrong usage: a command line that the tool cannot interpret. The exit code is 2.
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

// Ends the tool with this exit code, after everything was printed.
class ExitCode : public std::runtime_error {
 public:
  explicit ExitCode(int code) : runtime_error("ended early"), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Returns a message for an error of CLI11: it names the word and the most similar known one.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error);
// Returns the message followed by "; see `genesis-run train --help`", for the given command.
std::string with_help(const CLI::App& app, const std::string& message);

// Throws UsageError for an empty value. A script's variable may be unset, and the value would count as not given.
void check_no_empty_values(int argc, char** argv);

// Throws UsageError if an option was given that is not in `read`, because it would do nothing. `why` ends the
// sentence "--size does nothing ...": "with --list-passes".
void check_only(const Command& command, std::initializer_list<std::string_view> read, const std::string& why);
// Throws UsageError if `option` was given: "--size does nothing without --check DEVICE".
void check_not_given(const Command& command, const std::string& option, const std::string& why);

}  // namespace genesis::tools
