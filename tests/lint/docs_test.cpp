// Tests that the documents match the code: README shows the example that the suite runs, docs/ops.md lists the ops as they are
// defined, links lead to files, and the Chinese README and tour show the same commands and pictures as the English ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = GENESIS_SOURCE_ROOT;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

std::vector<fs::path> documents() {
  std::vector<fs::path> found = {kRoot / "README.md", kRoot / "README.zh.md", kRoot / "CONTRIBUTING.md",
                                 kRoot / "bench/README.md"};
  for (const char* folder : {"docs", "bench/notes"})
    for (const auto& entry : fs::directory_iterator(kRoot / folder))
      if (entry.path().extension() == ".md") found.push_back(entry.path());
  return found;
}

constexpr const char* kFolders[] = {"schema", "builder", "passes", "executor", "backends",
                                    "models", "tools",   "bench",  "tests"};

bool is_code(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp" || path.extension() == ".cu";
}

// Returns every file of the tree, with all its shorter forms: "nn/rope.cu" for "backends/cuda/kernels/nn/rope.cu".
std::set<std::string> names_of_files() {
  std::set<std::string> names;
  for (const char* folder : {"schema", "builder", "passes", "executor", "backends", "models", "tools",
                             "bench", "tests", "docs", "examples", "include"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
      for (std::string name = fs::relative(entry.path(), kRoot).string();;) {
        names.insert(name);
        const size_t slash = name.find('/');
        if (slash == std::string::npos) break;
        name = name.substr(slash + 1);
      }
  return names;
}

// Returns the words of a text that name files in folders, without a leading "../".
std::vector<std::string> files_in(const std::string& text) {
  std::vector<std::string> found;
  const auto is_of_a_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string("_./~-").find(c) != std::string::npos;
  };
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if(at, text.end(), is_of_a_word);
    at = std::find_if_not(begin, text.end(), is_of_a_word);
    std::string word(begin, at);
    while (word.starts_with("../")) word.erase(0, 3);
    while (word.ends_with(".")) word.pop_back();
    const bool is_file =
        word.ends_with(".h") || word.ends_with(".cpp") || word.ends_with(".cu") || word.ends_with(".py");
    if (is_file && word.find('/') != std::string::npos) found.push_back(word);
  }
  return found;
}

// Returns the comment of a line of code.
std::string comment_of(const std::string& line) {
  const size_t at = line.find("//");
  return at == std::string::npos || line.find('"') != std::string::npos ? "" : line.substr(at);
}

// The guides name files that their readers will write, and Highway has its own files.
TEST(Docs, FilesThatTextsAndCommentsNameExist) {
  const std::set<std::string> names = names_of_files();
  ASSERT_TRUE(names.contains("nn/rope.cu"));
  size_t named = 0;
  const auto check = [&](const fs::path& path, const std::string& text) {
    for (const std::string& file : files_in(text)) {
      ++named;
      EXPECT_TRUE(names.contains(file) || file.starts_with("hwy/")) << path << " names " << file;
    }
  };
  for (const fs::path& path : documents())
    if (!path.filename().string().starts_with("adding-")) check(path, read(path));
  for (const char* folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (!is_code(entry.path())) continue;
      std::istringstream code(read(entry.path()));
      for (std::string line; std::getline(code, line);) check(entry.path(), comment_of(line));
    }
  EXPECT_GT(named, 300u);
}

TEST(Docs, ReadmeShowsTheExampleThatRuns) {
  const std::string example = read(kRoot / "examples/first_model.cpp");
  for (const char* name : {"README.md", "README.zh.md"})
    EXPECT_NE(read(kRoot / name).find("```cpp\n" + example + "```"), std::string::npos)
        << name << " shows another program than examples/first_model.cpp";
}

// Returns the texts between each `begin` and the next `end`.
std::vector<std::string> pieces(const std::string& text, const std::string& begin, const std::string& end) {
  std::vector<std::string> found;
  for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    found.push_back(text.substr(at, text.find_first_of(end, at) - at));
  }
  return found;
}

// Expects every command, picture and link to docs/ of the English page in the Chinese one.
void expect_same_commands_and_pictures(const char* english_page, const char* chinese_page) {
  const std::string english = read(kRoot / english_page), chinese = read(kRoot / chinese_page);
  size_t seen = 0;
  for (const auto& [begin, end] :
       {std::pair{"\ngenesis-", "#\n"}, {"`genesis-", "`"}, {"](docs/", ")"}, {"](images/", ")"}})
    for (std::string piece : pieces(english, begin, end)) {
      piece.erase(piece.find_last_not_of(' ') + 1);
      EXPECT_NE(chinese.find(begin + piece), std::string::npos)
          << begin << piece << " is not in " << chinese_page;
      ++seen;
    }
  EXPECT_GT(seen, 20u) << english_page;
}

TEST(Docs, ChinesePagesShowTheSameCommandsAndPictures) {
  expect_same_commands_and_pictures("README.md", "README.zh.md");
  expect_same_commands_and_pictures("docs/tour.md", "docs/tour.zh.md");
}

TEST(Docs, TheTableOfOpsIsThatOfTheDefinitions) {
  const std::string table = output_of(GENESIS_BUILD_ROOT "/tools/genesis-opt --list-ops");
  ASSERT_GT(table.size(), 5000u);
  EXPECT_NE(read(kRoot / "docs/ops.md").find(table), std::string::npos)
      << "docs/ops.md is out of date: put the output of `genesis-opt --list-ops` in place of its table";
}

// Returns a page without its code blocks, in which lambdas look like links.
std::string prose_of(const fs::path& document) {
  const std::string text = read(document), fence = "\n```";
  std::string prose;
  bool is_code = false;
  for (size_t at = 0, next; at < text.size(); at = next, is_code = !is_code) {
    next = std::min(text.find(fence, at), text.size() - fence.size()) + fence.size();
    if (!is_code) prose += text.substr(at, next - at);
  }
  return prose;
}

TEST(Docs, LinksLeadToFiles) {
  for (const fs::path& document : documents()) {
    const std::string text = prose_of(document);
    for (size_t at = 0; (at = text.find("](", at)) != std::string::npos; ++at) {
      const std::string target = text.substr(at + 2, text.find(')', at) - at - 2);
      if (target.rfind("http", 0) == 0 || target.find_first_of(" {&") != std::string::npos || target.empty())
        continue;
      EXPECT_TRUE(fs::exists(document.parent_path() / target.substr(0, target.find('#'))))
          << document << " links to " << target;
    }
  }
}

TEST(Docs, EveryBenchIsInTheTable) {
  const std::string page = read(kRoot / "bench/README.md"), programs = read(kRoot / "bench/meson.build");
  std::vector<std::string> names = pieces(programs, "executable('", "'");
  EXPECT_GT(names.size(), 10u);
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "bench"))
    if (entry.path().extension() == ".py" || entry.path().extension() == ".sh")
      names.push_back(entry.path().filename());
  EXPECT_GT(names.size(), 30u);
  for (const std::string& name : names)
    EXPECT_NE(page.find(name + "`"), std::string::npos)
        << "bench/README.md does not say what " << name << " measures";
}

TEST(Docs, EveryEnvironmentVariableIsInTheTable) {
  const std::string page = read(kRoot / "docs/debugging.md"), code = read(kRoot / "executor/environment.cpp");
  for (size_t at = 0; (at = code.find("\"GENESIS_", at)) != std::string::npos; ++at) {
    const std::string name = code.substr(at + 1, code.find('"', at + 1) - at - 1);
    EXPECT_NE(page.find(name), std::string::npos) << name;
  }
}

}  // namespace
