// Helpers of the tests of tools: a folder of its own for every test, tiny models made once by the tools themselves,
// and checks of errors.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/tools/process.h"

namespace genesis::testing {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Returns the path of genesis-build, genesis-opt, genesis-run or genesis-viz in this build.
std::string tool_path(const std::string& tool);
Process run_tool(const std::string& tool, const Words& arguments, const ProcessOptions& options = {});

Words operator+(Words a, const Words& b);
std::string read_text(const fs::path& path);
void write_text(const fs::path& path, const std::string& text);
std::set<std::string> files_in(const fs::path& folder);

// Checks for exit code 0 and returns the output.
std::string expect_ok(const Process& process);
nlohmann::json expect_json(const Process& process);
// Checks for exit code 1, nothing on stdout, and one line "genesis-x: error: ..." with all of `parts` on stderr.
void expect_error(const Process& process, const Words& parts);
// Checks for exit code 2 and the same, with the command whose --help tells more.
void expect_usage_error(const Process& process, const Words& parts);

// Tiny versions of all models of the zoo, each as NAME.genesis and with training added as NAME.train.genesis;
// text.txt and rows.jsonl to train on. Made once per process.
class TinyModels {
 public:
  static const TinyModels& get();
  ~TinyModels();

  std::string path(const std::string& file) const { return (folder_ / file).string(); }
  std::string text() const { return path("text.txt"); }
  std::string rows() const { return path("rows.jsonl"); }

 private:
  TinyModels();
  void make(const std::string& name, const Words& settings) const;
  fs::path folder_;
};

inline std::string tiny(const std::string& file) { return TinyModels::get().path(file); }

class ToolTest : public ::testing::Test {
 protected:
  ToolTest();
  ~ToolTest() override;
  std::string path(const std::string& file) const { return (folder_ / file).string(); }
  const fs::path& folder() const { return folder_; }

  // Returns the words of a training run of a language model of the zoo on the text.
  Words train_words(const std::string& model, int steps, const Words& more = {}) const;

 private:
  fs::path folder_;
};

}  // namespace genesis::testing
