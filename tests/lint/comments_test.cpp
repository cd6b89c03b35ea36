// A comment is a sentence with a subject: no comment begins with a word that opens a relative clause or leaves out its noun, such
// as "Of the rows that are left" or "What no pass names". Readers stumble over such comments before they know the code.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/lint/pattern.h"

namespace {

using genesis::testing::Pattern;
namespace fs = std::filesystem;
const fs::path kRoot = GENESIS_SOURCE_ROOT;
const std::vector<std::string> kFolders = {".ci",     "backends", "bench", "builder", "examples", "executor", "include",
                                           "models", "packaging", "passes", "schema", "tests", "tools"};

constexpr const char* kWords =
    "([Oo]f|[Ww]hat|[Ww]hatever|[Ww]hether|[Ww]hoever|[Ww]hose|[Ww]hom?|[Tt]hat|[Tt]hose|[Aa]s|[Ww]here|[Ww]hich|[Hh]ow)([ ,:]|$)";

// Returns the mark that begins a comment in this file; empty if its comments are not read.
std::string mark_of(const fs::path& path) {
  const std::string kind = path.extension();
  if (kind == ".h" || kind == ".cpp" || kind == ".cu" || kind == ".js" || kind == ".mjs" || kind == ".in") return "//";
  if (kind == ".py" || kind == ".sh" || path.filename() == "meson.build") return "#";
  return "";
}

struct Comment {
  int line = 0;
  std::string text;
};

// Returns the first line of each block of comment lines, and each comment behind code.
std::vector<Comment> comments_of(std::istream& in, const std::string& mark) {
  std::vector<Comment> found;
  bool in_block = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const size_t first = line.find_first_not_of(' ');
    const bool is_comment = first != std::string::npos && line.compare(first, mark.size(), mark) == 0;
    const size_t behind_code = line.find("  " + mark + " ");
    size_t at = std::string::npos;
    if (is_comment && !in_block) at = line.find_first_not_of("/#<! ", first);
    if (!is_comment && behind_code != std::string::npos) at = behind_code + mark.size() + 3;
    if (at != std::string::npos) found.push_back({number, line.substr(at)});
    in_block = is_comment;
  }
  return found;
}

TEST(Comments, EachHasASubject) {
  const Pattern no_subject("^" + std::string(kWords));
  size_t comments = 0;
  for (const std::string& folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string mark = entry.is_regular_file() ? mark_of(entry.path()) : "";
      if (mark.empty()) continue;
      std::ifstream in(entry.path());
      for (const Comment& comment : comments_of(in, mark)) {
        ++comments;
        EXPECT_FALSE(no_subject.is_in(comment.text))
            << fs::relative(entry.path(), kRoot).string() << ":" << comment.line
            << ": a comment is a sentence with a subject, not: " << comment.text;
      }
    }
  EXPECT_GT(comments, 10000u);
}

TEST(Comments, AreFoundInBlocksAndBehindCode) {
  const std::string gap = "  ";
  std::istringstream in("// What it is.\n// of two lines\nint x;" + gap + "// of that\n" + gap + "// A second block.\n");
  std::vector<std::string> texts;
  for (const Comment& comment : comments_of(in, "//")) texts.push_back(comment.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"What it is.", "of that", "A second block."}));
  const Pattern no_subject("^" + std::string(kWords));
  EXPECT_TRUE(no_subject.is_in(texts[0]));
  EXPECT_TRUE(no_subject.is_in(texts[1]));
  EXPECT_FALSE(no_subject.is_in("Offsets of the rows."));
}

}  // namespace
