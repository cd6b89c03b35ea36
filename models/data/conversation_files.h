// Finds files of conversations among the data of a command line, and warns of data that is left out or repaired.
#pragma once

#include <string>
#include <vector>

#include "models/data/conversations.h"

namespace genesis::data {

// Returns the files in `names` (files and folders) if they have conversations, {"messages": [...]}; lines {"text":
// ...} may stand between these. Returns nothing if there are none. In a folder with conversations only .jsonl files
// count, and blank ones are left out. Throws Error if only some of the files have conversations, and for a .json of
// conversations.
std::vector<std::string> conversation_files(const std::vector<std::string>& names);

// Replaces folders by the files in them.
std::vector<std::string> without_folders(const std::vector<std::string>& names);

// Warns of lines left out, and of text that is not UTF-8; `where`, such as "byte 3 of 'a.txt'", is the place of the
// bad bytes.
void warn_of_skipped(const Conversations& read);
void warn_of_repaired(const std::string& where);

}  // namespace genesis::data
