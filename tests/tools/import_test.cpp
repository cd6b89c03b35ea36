// genesis-build of a folder that transformers saved.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class Import : public ToolTest {
 protected:
  static std::string folder(const std::string& name) {
    return std::string(GENESIS_SOURCE_ROOT) + "/tests/models/hugging_face/" + name;
  }
};

TEST_F(Import, MakesAFileThatTheOtherToolsTake) {
  const auto made =
      expect_json(run_tool("genesis-build", {folder("qwen2_tied"), "-o", path("m.genesis"), "--json"}));
  EXPECT_EQ(made["model"], "qwen2");
  EXPECT_EQ(made["parameters"], 61 * 16 + 2 * (16 * 16 * 2 + 16 * 8 * 2 + 32 + 3 * 16 * 24 + 32) + 16);
  const auto info = expect_json(run_tool("genesis-run", {"info", path("m.genesis"), "--json"}));
  EXPECT_EQ(info["metadata"]["architecture"], "qwen2");
  expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--train", "adamw", "-o", path("train.genesis")}));
}

TEST_F(Import, TakesSettingsButNoSeed) {
  expect_ok(run_tool("genesis-build", {folder("llama_bf16"), "--set", "dtype=f32", "-o", path("m.genesis")}));
  expect_usage_error(
      run_tool("genesis-build", {folder("llama_bf16"), "--seed", "3", "-o", path("n.genesis")}),
      {"--seed", "folder"});
}

TEST_F(Import, OfAFolderWithoutAModelSaysSo) {
  expect_error(run_tool("genesis-build", {path("."), "-o", path("m.genesis")}), {"there is no config.json"});
}

}  // namespace
}  // namespace genesis::testing
