#include "tools/common/terminal_style.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

namespace genesis::tools {

bool no_color_is_wanted() {
  const char* wanted = std::getenv("NO_COLOR");
  return wanted && *wanted;
}

TerminalStyle::TerminalStyle(int descriptor) {
  const char* terminal = std::getenv("TERM");
  has_colors_ = isatty(descriptor) && terminal && *terminal && std::string_view(terminal) != "dumb" &&
                !no_color_is_wanted();
}

std::string TerminalStyle::with(std::string_view codes, std::string_view text) const {
  return has_colors_ ? fmt::format("\x1b[{}m{}\x1b[0m", codes, text) : std::string(text);
}

}  // namespace genesis::tools
