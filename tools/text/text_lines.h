// Files of texts, one a line, for commands that read many of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace genesis::tools {

// Returns the texts of a file, without empty lines. Lines of a .txt file are texts; lines of other files are JSON: a string, or an
// object with a string "text". Throws Error naming the file and the line.
std::vector<std::string> read_texts(const std::string& path);

// Returns pairs of texts: a line of JSON each, a list of two strings, or an object with the strings "query" and "text".
std::vector<std::pair<std::string, std::string>> read_text_pairs(const std::string& path);

// Returns floats as JSON, each as short as its 32 bits allow: "[0.1,-2]".
std::string floats_json(const float* values, size_t count);

}  // namespace genesis::tools
