// Tests sizes, so that code stays easy to read: files per folder, lines per file, lines per function. It covers the
// product and bench/ with its scripts. The budgets are the largest current sizes: they may shrink, and never grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

constexpr int kFilesOfAFolder = 40;
constexpr int kLinesOfAFile = 471;
constexpr int kLinesOfAFunction = 45;
// Files with longer functions, and their limits.
const std::map<std::string, int> kLongFunctions = {
    {"backends/cpu/fused/tile_scalar.cpp", 57},
    {"backends/cuda/gemm/gemm_plain.cu", 54},
    {"backends/cuda/kernels/nn/norm.cu", 51},
};

struct Function {
  std::string file;
  int first = 0, lines = 0;
};

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp" || path.extension() == ".cu";
}

bool is_python(const fs::path& path) { return path.extension() == ".py"; }

bool is_script(const fs::path& path) { return is_python(path) || path.extension() == ".sh"; }

const std::vector<std::string> kProduct = {"schema", "builder", "passes", "backends", "executor", "models", "tools"};

std::vector<fs::path> files_in(const std::vector<std::string>& folders, bool (*is_counted)(const fs::path&)) {
  std::vector<fs::path> found;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder))
      if (is_counted(entry.path())) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> sources(const std::vector<std::string>& folders = kProduct) {
  return files_in(folders, is_source);
}

std::vector<fs::path> scripts_of_bench() { return files_in({"bench"}, is_script); }

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Returns `text` with comments, strings, character literals and preprocessor lines replaced by blanks, with the same
// lines.
std::string code_of(const std::string& text) {
  std::string code = text;
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, code.size()); ++i)
      if (code[i] != '\n') code[i] = ' ';
  };
  const auto end_of = [&](const std::string& what, size_t from) {
    const size_t at = text.find(what, from);
    return at == std::string::npos ? text.size() : at + what.size();
  };
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    const bool line_begins = i == 0 || text[i - 1] == '\n';
    if (text.compare(i, 2, "//") == 0) {
      blank(i, end = end_of("\n", i));
    } else if (text.compare(i, 2, "/*") == 0) {
      blank(i, end = end_of("*/", i + 2));
    } else if (line_begins && text[i] == '#') {
      while ((end = end_of("\n", end)) < text.size() && text[end - 2] == '\\') {
      }
      blank(i, end);
    } else if (text.compare(i, 2, "R\"") == 0) {
      const std::string mark = text.substr(i + 2, text.find('(', i) - i - 2);
      blank(i, end = end_of(")" + mark + "\"", i));
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]))))) {
      while (end < text.size() && text[end] != text[i]) end += text[end] == '\\' ? 2 : 1;
      blank(i, ++end);
    }
    i = end;
  }
  return code;
}

// Returns true if the text before a brace begins a scope of declarations (namespace, class or similar) and not a
// function.
bool opens_scope(const std::string& head) {
  std::istringstream words(head);
  for (std::string word; words >> word;)
    if (word == "namespace" || word == "class" || word == "struct" || word == "union" || word == "enum" || word == "extern")
      return true;
  return false;
}

// Returns true if the text before a brace is `... =`: the brace opens a table, which is data and may be long.
bool opens_table(const std::string& head) {
  const size_t last = head.find_last_not_of(" \n");
  return last != std::string::npos && head[last] == '=';
}

// Returns the functions at namespace or class level, including everything nested in them, and functions inside of tables.
std::vector<Function> functions_of(const fs::path& path) {
  const std::string code = code_of(text_of(path)), file = fs::relative(path, GENESIS_SOURCE_ROOT).string();
  std::vector<Function> found;
  std::vector<bool> scopes;  // for each open brace: true for a scope of declarations
  int line = 1, first = 0;
  size_t body = 0;  // brace depth at which the function's body began; 0: outside
  std::string head;
  for (const char c : code) {
    if (c == '{') {
      const bool declares = opens_scope(head) && head.find('(') == std::string::npos;
      scopes.push_back(body == 0 && (declares || opens_table(head)));
      if (!scopes.back() && body == 0) body = scopes.size(), first = line;
    } else if (c == '}' && !scopes.empty()) {
      if (body == scopes.size()) {
        body = 0;
        found.push_back({file, first, line - first + 1});
      }
      scopes.pop_back();
    }
    if (c == '{' || c == '}' || c == ';') head.clear();
    else head += c;
    line += c == '\n';
  }
  return found;
}

// Returns Python functions that are not nested in a function, each from `def` to its last line that is indented
// further.
std::vector<Function> functions_of_python(const fs::path& path) {
  std::istringstream in(text_of(path));
  const std::string file = fs::relative(path, GENESIS_SOURCE_ROOT).string();
  std::vector<Function> found;
  size_t outer =
      std::string::npos;  // indentation of the current function; npos: none
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || line[indent] == ')') continue;
    const bool is_inside = outer != std::string::npos && indent > outer;
    if (is_inside) found.back().lines = number - found.back().first + 1;
    if (is_inside) continue;
    const bool begins = line.compare(indent, 4, "def ") == 0;
    outer = begins ? indent : std::string::npos;
    if (begins) found.push_back({file, number, 1});
  }
  return found;
}

TEST(Size, FoldersHaveFewFiles) {
  std::map<fs::path, int> files;
  for (const fs::path& path : sources()) ++files[path.parent_path()];
  for (const fs::path& path : sources({"tests", "bench"})) ++files[path.parent_path()];
  for (const fs::path& path : scripts_of_bench()) ++files[path.parent_path()];
  ASSERT_GT(files.size(), 30u) << "the sources were not found under " << GENESIS_SOURCE_ROOT;
  for (const auto& [folder, count] : files)
    EXPECT_LE(count, kFilesOfAFolder) << folder << " has " << count << " files: what belongs together gets a folder of its own";
}

TEST(Size, FilesAreShort) {
  const auto check = [](const fs::path& path) {
    const std::string text = text_of(path);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), kLinesOfAFile) << path << ": a second concept wants a file of its own";
  };
  for (const fs::path& path : sources()) check(path);
  for (const fs::path& path : sources({"bench"})) check(path);
  for (const fs::path& path : scripts_of_bench()) check(path);
}

void expect_short(const Function& function) {
  const auto longer = kLongFunctions.find(function.file);
  EXPECT_LE(function.lines, longer == kLongFunctions.end() ? kLinesOfAFunction : longer->second)
      << function.file << ":" << function.first << " has " << function.lines << " lines";
}

TEST(Size, FunctionsAreShort) {
  std::vector<Function> all;
  for (const fs::path& path : sources())
    for (Function& function : functions_of(path)) all.push_back(std::move(function));
  ASSERT_GT(all.size(), 3000u);
  std::sort(all.begin(), all.end(), [](const Function& a, const Function& b) { return a.lines < b.lines; });
  for (const Function& function : all) expect_short(function);
  const auto at = [&](double share) { return all[static_cast<size_t>(share * static_cast<double>(all.size() - 1))].lines; };
  RecordProperty("functions", static_cast<int>(all.size()));
  RecordProperty("median_lines", at(0.5));
  RecordProperty("lines_of_90_percent", at(0.9));
  EXPECT_LE(at(0.5), 6) << "half of all functions";
  EXPECT_LE(at(0.9), 20) << "nine of ten functions";
}

TEST(Size, FunctionsOfBenchAreShort) {
  std::vector<Function> all;
  for (const fs::path& path : sources({"bench"}))
    for (Function& function : functions_of(path)) all.push_back(std::move(function));
  ASSERT_GT(all.size(), 150u);
  const size_t sources_alone = all.size();
  for (const fs::path& path : files_in({"bench"}, is_python))
    for (Function& function : functions_of_python(path)) all.push_back(std::move(function));
  ASSERT_GT(all.size(), sources_alone + 150);
  for (const Function& function : all) expect_short(function);
}

}  // namespace
