// docs/adding-an-op.md shows a whole op: what it shows compiles as it stands there.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const fs::path kSource = GENESIS_SOURCE_ROOT;

std::vector<std::string> code_blocks(const std::string& text) {
  const std::string begin = "```cpp\n", end = "\n```";
  std::vector<std::string> blocks;
  for (size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    blocks.push_back(text.substr(at, text.find(end, at) + 1 - at));
  }
  return blocks;
}

using Guide = ToolTest;

TEST_F(Guide, TheOpItAddsCompiles) {
  if (run_process({"sh", "-c", "command -v c++"}).code != 0) GTEST_SKIP() << "c++ is not in PATH";
  const auto blocks = code_blocks(read_text(kSource / "docs/adding-an-op.md"));
  ASSERT_EQ(blocks.size(), 4u) << "header, rules, kernel, test";
  fs::create_directories(folder() / "schema/ops/nn");
  write_text(path("schema/ops/nn/cube.h"), blocks[0]);
  std::string command = "cd " + folder().string();
  for (size_t i = 1; i < blocks.size(); ++i) {
    const std::string file = "block" + std::to_string(i) + ".cpp";
    write_text(path(file), blocks[i]);
    command += " && c++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only " + file + " -I. -I" +
               kSource.string() + " -I" GENESIS_BUILD_ROOT;
  }
  ProcessOptions options;
  options.timeout_seconds = 240;
  expect_ok(run_process({"sh", "-c", command}, options));
}

}  // namespace
}  // namespace genesis::testing
