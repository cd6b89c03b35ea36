// Lines of a terminal with cursor keys, history and pastes of any length, by libedit. Used by `genesis-run chat`.
#pragma once

#include <filesystem>
#include <memory>

#include "tools/common/line_input.h"

namespace genesis::tools {

// Returns true if this build has libedit; without it, lines come from LineInput.
bool has_line_editor();

// The file with the messages of earlier chats: genesis/chat_history below XDG_STATE_HOME or ~/.local/state. Empty where
// neither is named. Its folder need not be there.
std::filesystem::path chat_history_file();

// While it lives, the terminal at stdin and stderr neither cuts nor shows what is typed: an editor shows it at the next
// prompt. Signals that end the process leave the terminal as it was before. Throws Error in a build without libedit.
//
// `history`: a file that need not be there; empty: messages are kept in memory alone. One that cannot be written is told of
// once.
std::unique_ptr<LineReader> make_line_editor(const std::filesystem::path& history);

}  // namespace genesis::tools
