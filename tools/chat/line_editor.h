// Reads lines from a terminal with libedit: cursor keys, history, and pastes of any length.
#pragma once

#include <filesystem>
#include <memory>

#include "tools/chat/line_input.h"

namespace genesis::tools {

// Returns true if this build has libedit. Without it, LineInput reads the lines.
bool has_line_editor();

// Returns the file with the messages of earlier chats: genesis/chat_history below XDG_STATE_HOME or ~/.local/state.
// Returns an empty path if neither can be named. The folder may be missing.
std::filesystem::path chat_history_file();

// Makes an editor for the terminal at stdin and stderr. Between two prompts the terminal keeps typed text without
// showing or cutting it, and the editor shows it at the next prompt. A signal that ends the process restores the
// terminal first. Throws Error in a build without libedit.
//
// `history`: a file, which may be missing; if empty, messages are kept only in memory. The editor warns once if the
// file cannot be written.
std::unique_ptr<LineReader> make_line_editor(const std::filesystem::path& history);

}  // namespace genesis::tools
