// Tests that certain code stays in its only place: files that know halves of weights are those listed in
// docs/architecture.md, speeds of devices are in schema/graph/target.h, times that follow from them in
// schema/graph/cost_model.h, JSON is parsed by schema/file/json_text.h, and exchanges between lanes of a warp are in
// backends/cuda/device.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/lint/pattern.h"

namespace {

using genesis::testing::Pattern;
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
      const std::string file = fs::relative(entry.path(), kRoot);
      const std::vector<std::string> lines = lines_of(entry.path());
      for (size_t i = 0; i < lines.size(); ++i) visit(file, i + 1, lines[i]);
    }
  return files;
}

// Returns the files named in the table below the row that begins with `head`.
std::set<std::string> files_in_table(const std::string& head) {
  const std::regex name("`([^`]+)`");
  std::set<std::string> files;
  bool is_in = false;
  for (const std::string& line : lines_of(kRoot / "docs/architecture.md")) {
    const size_t begin = line.find_first_not_of(' ');
    const bool is_row = begin != std::string::npos && line[begin] == '|';
    is_in = is_row && (is_in || line.find(head) == begin);
    if (!is_in) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), name), end; at != end; ++at)
      files.insert((*at)[1].str());
  }
  return files;
}

TEST(Homes, HalvesOfWeightsAreKnownWhereTheArchitectureSays) {
  const Pattern halves(
      R"(bf16_halves|join_halves|JoinHalves|split_halves|parameters_per_half|is_halved|halves\.h|\b(as|in|of) halves\b)");
  std::set<std::string> known;
  const int files = visit_lines({"schema", "builder", "passes", "backends", "executor", "models", "tools"},
                                [&](const std::string& file, size_t, const std::string& line) {
                                  if (halves.is_in(line)) known.insert(file);
                                });
  EXPECT_GT(files, 1000);
  const std::set<std::string> listed = files_in_table("| files that know halves");
  for (const std::string& file : known)
    EXPECT_TRUE(listed.contains(file))
        << file << " knows halves: ask the state's format (StateFormat), or list it";
  for (const std::string& file : listed)
    EXPECT_TRUE(known.contains(file))
        << file << " does not know halves: docs/architecture.md need not list it";
}

TEST(Homes, SpeedsStandInTarget) {
  const Pattern speed(
      R"(constexpr (double|float) k\w*(Seconds|PerSecond|PerUs|PerByte)\b|\b[0-9][0-9.]*e\+?(9|1[0-9])\b)");
  const int files = visit_lines(
      {"passes", "executor"}, [&](const std::string& file, size_t number, const std::string& line) {
        EXPECT_FALSE(speed.is_in(line))
            << file << ":" << number << ": a device's speed is a fact of Target (schema/graph/target.h)";
      });
  EXPECT_GT(files, 200);
  EXPECT_TRUE(speed.is_in("constexpr double kCopyPerSecond = 2;") && speed.is_in("return 1.5e12;"));
}

TEST(Homes, TimesComeFromTheCostModel) {
  const Pattern division(
      R"(/ *\(?\w+(\.|->)((bytes|flops|exchanged)_per_second|\w+_flops|same_host|other_hosts)\b)");
  const int files = visit_lines(
      {"passes", "executor", "tools"}, [&](const std::string& file, size_t number, const std::string& line) {
        EXPECT_FALSE(division.is_in(line))
            << file << ":" << number << ": schema/graph/cost_model.h says how long work takes";
      });
  EXPECT_GT(files, 400);
  EXPECT_TRUE(division.is_in("cost.bytes / target.bytes_per_second") &&
              division.is_in("flops / chip->low_flops"));
}

TEST(Homes, JsonIsParsedByOneReader) {
  const Pattern parser(R"(\b(sax_parse|[Jj]son::(parse|accept))\b)");
  const int files = visit_lines({"schema", "builder", "passes", "backends", "executor", "models", "tools"},
                                [&](const std::string& file, size_t number, const std::string& line) {
                                  if (file == "schema/file/json_text.cpp") return;
                                  EXPECT_FALSE(parser.is_in(line))
                                      << file << ":" << number << ": schema/file/json_text.h reads JSON";
                                });
  EXPECT_GT(files, 1000);
  EXPECT_TRUE(parser.is_in("json::sax_parse(text, &events)") && parser.is_in("nlohmann::json::parse(text)"));
}

TEST(Homes, LanesExchangeInDevice) {
  const Pattern exchange(R"(__shfl\w*|__reduce_\w*_sync|\bredux\.sync|\bshfl\.sync)");
  const std::set<std::string> generated = {
      // text that NVRTC compiles without our headers
      "backends/cuda/codegen/fused_kit.h", "backends/cuda/codegen/reduce_kit.h",
      "backends/cuda/codegen/scan_kit.h"};
  std::set<std::string> known;
  const int files =
      visit_lines({"backends/cuda"}, [&](const std::string& file, size_t number, const std::string& line) {
        if (!exchange.is_in(line) || file.starts_with("backends/cuda/device/")) return;
        known.insert(file);
        EXPECT_TRUE(generated.contains(file))
            << file << ":" << number << ": take or add a primitive of backends/cuda/device/reduce.h";
      });
  EXPECT_GT(files, 100);
  EXPECT_EQ(known, generated) << "a file of this list exchanges nothing any more";
}

}  // namespace
