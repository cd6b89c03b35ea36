// Colors of the tools' output on a terminal. They are off if the output is not a terminal, if the terminal has no
// colors (TERM=dumb), or if NO_COLOR is set (https://no-color.org).
#pragma once

#include <string>
#include <string_view>

namespace genesis::tools {

// Returns true if NO_COLOR is set and not empty.
bool no_color_is_wanted();

class TerminalStyle {
 public:
  explicit TerminalStyle(int descriptor);  // STDOUT_FILENO or STDERR_FILENO

  bool has_colors() const { return has_colors_; }
  std::string dim(std::string_view text) const { return with("2", text); }
  std::string bold(std::string_view text) const { return with("1", text); }
  // begin_green() starts bold green text, and end_green() ends it.
  std::string begin_green() const { return has_colors_ ? "\x1b[1;32m" : ""; }
  std::string end_green() const { return has_colors_ ? "\x1b[0m" : ""; }
  std::string red(std::string_view text) const { return with("31", text); }

 private:
  std::string with(std::string_view codes, std::string_view text) const;

  bool has_colors_;
};

}  // namespace genesis::tools
