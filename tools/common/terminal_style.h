// Colors of what the tools write to a terminal. They are off where the output is no terminal, the terminal has none
// (TERM=dumb), or the user wants none (NO_COLOR, https://no-color.org).
#pragma once

#include <string>
#include <string_view>

namespace genesis::tools {

// Returns true if NO_COLOR is set to something.
bool no_color_is_wanted();

class TerminalStyle {
 public:
  explicit TerminalStyle(int descriptor);  // STDOUT_FILENO or STDERR_FILENO

  bool has_colors() const { return has_colors_; }
  std::string dim(std::string_view text) const { return with("2", text); }
  std::string bold(std::string_view text) const { return with("1", text); }
  // Bold and green from here on; plain again.
  std::string begin_green() const { return has_colors_ ? "\x1b[1;32m" : ""; }
  std::string end_green() const { return has_colors_ ? "\x1b[0m" : ""; }
  std::string red(std::string_view text) const { return with("31", text); }

 private:
  std::string with(std::string_view codes, std::string_view text) const;

  bool has_colors_;
};

}  // namespace genesis::tools
