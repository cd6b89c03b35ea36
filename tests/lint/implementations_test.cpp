// Tests the table of specialized kernel implementations in docs/kernels.md: it counts the lines that each would save,
// names existing implementations, and nothing general includes their folders.
#include <glob.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
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

// Returns the sources that match a shell pattern; for a folder, all files in it.
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

// Returns the texts between backquotes.
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
    if (line.starts_with("| ") && !line.starts_with("| implementation |")) found.push_back(cells_of(line));
  return found;
}

TEST(Implementations, TheTableCountsTheirLines) {
  ASSERT_GT(rows().size(), 10u);
  for (const auto& row : rows()) {
    ASSERT_EQ(row.size(), 5u) << row[0];
    const int64_t lines = lines_of(quoted(row[1])), claimed = std::atoll(row[2].c_str());
    EXPECT_LE(std::abs(lines - claimed), std::max<int64_t>(15, lines / 20))
        << row[0] << "has " << lines << " lines";
  }
}

std::string sources_of(const fs::path& folder) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
    if (is_source(entry.path())) text += read(entry.path());
  return text;
}

// An implementation is "op.name" or "gemm.name", where the name is in a kernel table of the backend; or it is a
// switch or a pass.
TEST(Implementations, TheTableNamesImplementationsThatExist) {
  const std::string rows_of_tables = sources_of("backends"),
                    switches = sources_of("executor") + sources_of("passes");
  for (const auto& row : rows())
    for (const std::string& implementation : quoted(row[0])) {
      const size_t dot = implementation.find('.');
      const std::string name = implementation.substr(dot == std::string::npos ? 0 : dot + 1);
      const std::string& where = dot == std::string::npos ? switches : rows_of_tables;
      EXPECT_NE(where.find('"' + name + '"'), std::string::npos) << implementation;
    }
}

std::set<std::string> implementations_of_the_table() {
  std::set<std::string> implementations;
  for (const auto& row : rows())
    for (const std::string& implementation : quoted(row[0])) implementations.insert(implementation);
  return implementations;
}

// The general implementations, which take over what specialized ones decline. One of them must exist.
const std::set<std::string> kGeneral = {"gemm.packed", "gemm.plain", "gemm.reference"};

// Every row of both lists of matrix products must be in the table or be a general implementation.
TEST(Implementations, TheTableHasAllRowsOfTheListsOfProducts) {
  const std::set<std::string> told = implementations_of_the_table();
  const std::regex row("    \\{\"(\\w+)\", ");
  for (const char* list : {"backends/cpu/gemm/gemm.cpp", "backends/cuda/gemm_list.cpp"}) {
    const std::string text = read(kRoot / list);
    int seen = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at, ++seen) {
      const std::string implementation = "gemm." + (*at)[1].str();
      EXPECT_TRUE(told.contains(implementation) || kGeneral.contains(implementation))
          << implementation << " of " << list;
    }
    EXPECT_GE(seen, 4) << "rows of " << list;
  }
}

// An optimization with a switch of its own must be in the table.
TEST(Implementations, TheTableHasTheSwitchesThatAreImplementations) {
  const std::set<std::string> told = implementations_of_the_table();
  for (const char* implementation : {"megakernel", "peer_memory", "side_stream"})
    EXPECT_TRUE(told.contains(implementation)) << implementation;
}

// Returns the folders in a row of the table, as paths from the root.
std::set<std::string> folders_of(const std::string& where) {
  std::set<std::string> folders;
  for (const std::string& pattern : quoted(where)) {
    glob_t matches{};
    glob((kRoot / pattern).c_str(), GLOB_BRACE, nullptr, &matches);
    for (size_t i = 0; i < matches.gl_pathc; ++i) {
      const fs::path path = matches.gl_pathv[i];
      if (fs::is_directory(path))
        folders.insert(fs::relative(path, kRoot).string());  // removes a slash at the end
    }
    globfree(&matches);
  }
  return folders;
}

// A folder, and the folder of a specialized implementation that it includes.
using FolderInclude = std::pair<std::string, std::string>;

// Folders that include a specialized implementation's folder and would have to go with it, with the reason.
// Implementations may build on a more general one.
const std::map<FolderInclude, std::string> kAllowedIncludes = {
    {{"backends/cpu/quantized", "backends/cpu/gemm/gemv"}, "a GEMV whose weights are quants"},
    {{"backends/cuda/gemm/bias_grad", "backends/cuda/gemm/lt"},
     "the library's product with sums of rows beside it"},
};

// Returns every pair of product folders of which a file in the first includes a file in the second.
std::set<FolderInclude> folder_includes() {
  const std::string start = "#include \"";
  std::set<FolderInclude> includes;
  for (const char* layer : {"schema", "builder", "passes", "backends", "executor", "models", "tools"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / layer)) {
      if (!is_source(entry.path())) continue;
      const std::string from = fs::relative(entry.path().parent_path(), kRoot).string();
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        if (line.starts_with(start))
          includes.insert({from, fs::path(line.substr(start.size())).parent_path().string()});
    }
  return includes;
}

// An implementation can be deleted with its folders and its lines in lists, because nothing else includes its files.
TEST(Implementations, NothingIncludesTheFolderOfAnImplementation) {
  const std::set<FolderInclude> includes = folder_includes();
  for (const auto& row : rows()) {
    const std::set<std::string> own = folders_of(row[1]);
    for (const FolderInclude& include : includes) {
      const auto& [from, folder] = include;
      if (own.contains(folder) && !own.contains(from)) {
        EXPECT_TRUE(kAllowedIncludes.contains(include))
            << from << " includes " << folder << ", the folder of" << row[0]
            << ": declare its rows in the list that has them";
      }
    }
  }
  for (const auto& [include, reason] : kAllowedIncludes)
    EXPECT_TRUE(includes.contains(include))
        << include.first << " no longer includes " << include.second << ": " << reason;
}

}  // namespace
