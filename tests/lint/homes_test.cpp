// What has one home stays there: speeds of devices stand in schema/graph/target.h.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = GENESIS_SOURCE_ROOT;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Calls visit(path from the root, line number, line).
int visit_lines(const std::vector<const char*>& folders,
                const std::function<void(const std::string&, size_t, const std::string&)>& visit) {
  int files = 0;
  for (const char* folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const std::string kind = entry.path().extension();
      if (kind != ".h" && kind != ".cpp" && kind != ".cu") continue;
      ++files;
      const std::vector<std::string> lines = lines_of(entry.path());
      for (size_t i = 0; i < lines.size(); ++i)
        visit(fs::relative(entry.path(), kRoot).string(), i + 1, lines[i]);
    }
  return files;
}

TEST(Homes, SpeedsStandInTarget) {
  const std::regex speed(
      R"(constexpr (double|float) k\w*(Seconds|PerSecond|PerUs|PerByte)\b|\b\d[\d.]*e\+?(9|1\d)\b)");
  const int files = visit_lines(
      {"passes", "executor"}, [&](const std::string& file, size_t number, const std::string& line) {
        EXPECT_FALSE(std::regex_search(line, speed))
            << file << ":" << number << ": a device's speed is a fact of Target (schema/graph/target.h)";
      });
  EXPECT_GT(files, 200);
}

}  // namespace
