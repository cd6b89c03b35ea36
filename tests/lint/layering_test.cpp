// Holds every #include of the tree against the floors of docs/architecture.md: no arrow upward, none sideways.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"schema", {}},
    {"builder", {"schema"}},
    {"passes", {"schema"}},
    {"backends", {"schema"}},
    {"executor", {"schema", "passes", "backends"}},
    {"models", {"schema", "builder", "passes", "backends", "executor"}},
    {"tools", {"schema", "builder", "passes", "backends", "executor", "models"}},
};

std::string included_folder(const std::string& line) {
  const std::string start = "#include \"";
  if (line.rfind(start, 0) != 0) return "";
  const size_t slash = line.find('/', start.size());
  return slash == std::string::npos ? "" : line.substr(start.size(), slash - start.size());
}

bool is_source(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cpp" || path.extension() == ".cu" || path.extension() == ".cuh";
}

TEST(Layering, NoIncludeRunsUpwardOrSideways) {
  int files = 0;
  for (const auto& [folder, allowed] : kMayInclude) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder)) {
      if (!is_source(entry.path())) continue;
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        const std::string target = included_folder(line);
        if (target.empty() || target == folder) continue;
        EXPECT_TRUE(allowed.contains(target)) << entry.path() << " may not include " << target << "/: " << line;
      }
    }
  }
  EXPECT_GT(files, 50) << "the sources were not found under " << GENESIS_SOURCE_ROOT;
}

TEST(Layering, OneFileIncludesGeneratedFlatBuffersCode) {
  std::set<std::string> users;
  for (const auto& [folder, allowed] : kMayInclude)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(GENESIS_SOURCE_ROOT) / folder)) {
      if (!is_source(entry.path())) continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);)
        if (line.find("#include") == 0 && line.find("_generated.h") != std::string::npos) users.insert(entry.path());
    }
  EXPECT_EQ(users.size(), 1u);
}

}  // namespace
