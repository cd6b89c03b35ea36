#include <cstdlib>

#include "tools/chat/line_editor.h"

namespace genesis::tools {

std::filesystem::path chat_history_file() {
  const char *base = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  std::filesystem::path folder;
  if (base && *base)
    folder = base;
  else if (home && *home)
    folder = std::filesystem::path(home) / ".local/state";
  return folder.empty() ? folder : folder / "genesis/chat_history";
}

}  // namespace genesis::tools
