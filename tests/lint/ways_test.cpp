// The table of specialised ways in docs/kernels.md counts the lines that would go with each, and names ways that there are.
#include <glob.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = GENESIS_SOURCE_ROOT;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp" || path.extension() == ".cu";
}

// Sources by a pattern of the shell; of a folder all that lie in it.
std::vector<fs::path> files_of(const std::string& pattern) {
  std::vector<fs::path> found;
  glob_t matches{};
  glob((kRoot / pattern).c_str(), GLOB_BRACE, nullptr, &matches);
  for (size_t i = 0; i < matches.gl_pathc; ++i) {
    const fs::path path = matches.gl_pathv[i];
    if (is_source(path)) found.push_back(path);
    if (fs::is_directory(path))
      for (const auto& entry : fs::directory_iterator(path))
        if (is_source(entry.path())) found.push_back(entry.path());
  }
  globfree(&matches);
  return found;
}

int64_t lines_of(const std::vector<std::string>& patterns) {
  int64_t lines = 0;
  for (const std::string& pattern : patterns) {
    const std::vector<fs::path> files = files_of(pattern);
    EXPECT_FALSE(files.empty()) << pattern << " names no file";
    for (const fs::path& file : files) {
      const std::string text = read(file);
      lines += std::count(text.begin(), text.end(), '\n');
    }
  }
  return lines;
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream in(row.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(cell);
  return cells;
}

// What stands between backquotes.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = text.find('`'); at != std::string::npos; at = text.find('`', at + 1)) {
    const size_t end = text.find('`', at + 1);
    found.push_back(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return found;
}

std::vector<std::vector<std::string>> rows() {
  std::vector<std::vector<std::string>> found;
  std::istringstream in(read(kRoot / "docs/kernels.md"));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("| ") && !line.starts_with("| way |")) found.push_back(cells_of(line));
  return found;
}

TEST(Ways, TheTableCountsTheirLines) {
  ASSERT_GT(rows().size(), 10u);
  for (const auto& row : rows()) {
    ASSERT_EQ(row.size(), 5u) << row[0];
    const int64_t lines = lines_of(quoted(row[1])), claimed = std::atoll(row[2].c_str());
    EXPECT_LE(std::abs(lines - claimed), std::max<int64_t>(15, lines / 20))
        << row[0] << "has " << lines << " lines";
  }
}

// A way is "op.name" or "gemm.name", and the name stands in a row of a table of the backend.
TEST(Ways, TheTableNamesWaysThatThereAre) {
  std::string backends;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "backends"))
    if (is_source(entry.path())) backends += read(entry.path());
  for (const auto& row : rows())
    for (const std::string& way : quoted(row[0]))
      if (const size_t dot = way.find('.'); dot != std::string::npos) {
        const std::string name = way.substr(dot + 1);
        EXPECT_TRUE(backends.find('"' + name + '"') != std::string::npos ||
                    backends.find('"' + way + '"') != std::string::npos)
            << way;
      }
}

}  // namespace
