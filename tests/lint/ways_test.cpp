// The table of specialised ways in docs/kernels.md counts the lines that would go with each, and names ways that there are, of
// which nothing general sees the folder.
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

std::string sources_of(const fs::path& folder) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
    if (is_source(entry.path())) text += read(entry.path());
  return text;
}

// A way is "op.name" or "gemm.name", and the name stands in a row of a table of the backend; or it is a switch or a pass.
TEST(Ways, TheTableNamesWaysThatThereAre) {
  const std::string rows_of_tables = sources_of("backends"),
                    switches = sources_of("executor") + sources_of("passes");
  for (const auto& row : rows())
    for (const std::string& way : quoted(row[0])) {
      const size_t dot = way.find('.');
      const std::string name = way.substr(dot == std::string::npos ? 0 : dot + 1);
      const std::string& where = dot == std::string::npos ? switches : rows_of_tables;
      EXPECT_NE(where.find('"' + name + '"'), std::string::npos) << way;
    }
}

std::set<std::string> ways_of_the_table() {
  std::set<std::string> ways;
  for (const auto& row : rows())
    for (const std::string& way : quoted(row[0])) ways.insert(way);
  return ways;
}

// The ways that take over what a specialised one declines: the general ones, of which one has to be there.
const std::set<std::string> kGeneral = {"gemm.packed", "gemm.plain", "gemm.reference"};

// Every row of both lists of products is in the table, or is one of the general ways.
TEST(Ways, TheTableHasAllRowsOfTheListsOfProducts) {
  const std::set<std::string> told = ways_of_the_table();
  const std::regex row("    \\{\"(\\w+)\", ");
  for (const char* list : {"backends/cpu/gemm/gemm.cpp", "backends/cuda/gemm_list.cpp"}) {
    const std::string text = read(kRoot / list);
    int seen = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), row), end; at != end; ++at, ++seen) {
      const std::string way = "gemm." + (*at)[1].str();
      EXPECT_TRUE(told.contains(way) || kGeneral.contains(way)) << way << " of " << list;
    }
    EXPECT_GE(seen, 4) << "rows of " << list;
  }
}

// One start less or an own kernel: a way that is switched off by its own name is told of.
TEST(Ways, TheTableHasTheSwitchesThatAreWays) {
  const std::set<std::string> told = ways_of_the_table();
  for (const char* way : {"megakernel", "peer_memory", "side_stream"}) EXPECT_TRUE(told.contains(way)) << way;
}

// The folders that a row of the table names, from the root.
std::set<std::string> folders_of(const std::string& where) {
  std::set<std::string> folders;
  for (const std::string& pattern : quoted(where)) {
    glob_t matches{};
    glob((kRoot / pattern).c_str(), GLOB_BRACE, nullptr, &matches);
    for (size_t i = 0; i < matches.gl_pathc; ++i) {
      const fs::path path = matches.gl_pathv[i];
      if (fs::is_directory(path))
        folders.insert(fs::relative(path, kRoot).string());  // without a slash at its end
    }
    globfree(&matches);
  }
  return folders;
}

// A folder, and the folder of a way that it includes.
using Sight = std::pair<std::string, std::string>;

// What sees the folder of a way and could not stay if that went, with the reason. Ways build on a more general one; lists see none.
const std::map<Sight, std::string> kMaySee = {
    {{"backends/cpu/quantized", "backends/cpu/gemm/gemv"}, "a GEMV whose weights are quants"},
    {{"backends/cuda/gemm/bias_grad", "backends/cuda/gemm/lt"},
     "the library's product with sums of rows beside it"},
    {{"backends/cuda/gemm/gemv_prefetch", "backends/cuda/gemm/gemv"},
     "the same sums, and where it does not start"},
    {{"backends/cuda/gemm/quantized_stream", "backends/cuda/gemm/quantized"},
     "the same, and where it does not start"},
    {{"backends/cuda/gemm/skinny", "backends/cuda/gemm/gemv"},
     "the weights of a node, described for one start"},
    {{"backends/cuda/hopper/skinny", "backends/cuda/gemm/gemv"}, "the same"},
    {{"backends/cuda/hopper/skinny", "backends/cuda/gemm/skinny"},
     "what becomes of its sums, and where it does not start"},
};

// Every pair of folders of the product of which a file of the first includes one of the second.
std::set<Sight> all_sights() {
  const std::string start = "#include \"";
  std::set<Sight> sights;
  for (const char* floor : {"schema", "builder", "passes", "backends", "executor", "models", "tools"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / floor)) {
      if (!is_source(entry.path())) continue;
      const std::string from = fs::relative(entry.path().parent_path(), kRoot).string();
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        if (line.starts_with(start))
          sights.insert({from, fs::path(line.substr(start.size())).parent_path().string()});
    }
  return sights;
}

// So that a way goes with its folders and its lines in lists: nothing else includes what is in them.
TEST(Ways, NothingSeesTheFolderOfAWay) {
  const std::set<Sight> sights = all_sights();
  for (const auto& row : rows()) {
    const std::set<std::string> own = folders_of(row[1]);
    for (const Sight& sight : sights) {
      const auto& [who, folder] = sight;
      if (own.contains(folder) && !own.contains(who)) {
        EXPECT_TRUE(kMaySee.contains(sight)) << who << " includes " << folder << ", the folder of" << row[0]
                                             << ": declare its rows in the list that has them";
      }
    }
  }
  for (const auto& [sight, reason] : kMaySee)
    EXPECT_TRUE(sights.contains(sight))
        << sight.first << " no longer sees " << sight.second << ": " << reason;
}

}  // namespace
