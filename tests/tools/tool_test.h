// What the tests of the tools share: a folder of its own for every test, tiny models made once by the tools
// themselves, and what an error must look like.
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

// genesis-build, genesis-opt, genesis-run or genesis-viz of this build.
std::string tool_path(const std::string& tool);
Process run_tool(const std::string& tool, const Words& arguments, const ProcessOptions& options = {});

Words operator+(Words a, const Words& b);
std::string read_text(const fs::path& path);
void write_text(const fs::path& path, const std::string& text);
std::set<std::string> files_in(const fs::path& folder);

// Exit code 0; returns what it printed.
std::string expect_ok(const Process& process);
nlohmann::json expect_json(const Process& process);
// Exit code 1, nothing on stdout, and on stderr one line "genesis-x: error: ..." with all of `parts` in it.
void expect_error(const Process& process, const Words& parts);
// Exit code 2 and the same, with the command whose --help tells more.
void expect_usage_error(const Process& process, const Words& parts);

// The whole zoo, tiny, each as NAME.genesis and, with training added, NAME.train.genesis; text.txt and
// rows.jsonl to train on. Made once in a process.
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

  // A training run of a language model of the zoo on the text.
  Words train_words(const std::string& model, int steps, const Words& more = {}) const;

 private:
  fs::path folder_;
};

}  // namespace genesis::testing
