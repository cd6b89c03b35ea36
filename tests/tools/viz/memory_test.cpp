// Tests genesis-viz --memory: the picture shows what the plan contains.
#include <cmath>
#include <regex>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

struct Block {
  double x, y, width, height;  // pixels
  int64_t first, last, offset, bytes;
};

std::vector<Block> blocks_of(const std::string& svg) {
  static const std::regex kBlock(
      R"re(class="block" x="([-0-9.]+)" y="([-0-9.]+)" width="([-0-9.]+)" height="([-0-9.]+)"[^>]*data-steps="(\d+) (\d+)" data-offset="(\d+)" data-bytes="(\d+)")re");
  std::vector<Block> blocks;
  for (std::sregex_iterator at(svg.begin(), svg.end(), kBlock), end; at != end; ++at) {
    const auto real = [&](size_t i) { return std::stod((*at)[i].str()); };
    const auto whole = [&](size_t i) { return static_cast<int64_t>(std::stoll((*at)[i].str())); };
    blocks.push_back({real(1), real(2), real(3), real(4), whole(5), whole(6), whole(7), whole(8)});
  }
  return blocks;
}

bool overlap(double a, double a_size, double b, double b_size, double rounding) {
  return a + rounding < b + b_size && b + rounding < a + a_size;
}

void check_no_overlap(const std::vector<Block>& blocks) {
  size_t drawn = 0, planned = 0;
  for (size_t i = 0; i < blocks.size(); ++i)
    for (size_t j = i + 1; j < blocks.size(); ++j) {
      const Block &a = blocks[i], &b = blocks[j];
      planned += a.first <= b.last && b.first <= a.last && a.offset < b.offset + b.bytes &&
                 b.offset < a.offset + a.bytes;
      drawn += overlap(a.x, a.width, b.x, b.width, 0.021) && overlap(a.y, a.height, b.y, b.height, 0.0021);
    }
  EXPECT_EQ(planned, 0u);
  EXPECT_EQ(drawn, 0u);
}

// Returns the report of --check about the entry point.
nlohmann::json plan_facts(const std::string& model, const Words& sizes) {
  return expect_json(
      run_tool("genesis-opt",
               Words{model, "--check", "cpu", "--entry", "train_step", "--json"} + sizes))["entries"][0];
}

void check_live_bytes(const std::vector<Block>& blocks, const nlohmann::json& facts) {
  std::vector<int64_t> live(facts["steps"].get<size_t>(), 0);
  for (const Block& block : blocks) {
    ASSERT_LE(block.first, block.last);
    ASSERT_LT(block.last, static_cast<int64_t>(live.size()));
    for (int64_t i = block.first; i <= block.last; ++i) live[static_cast<size_t>(i)] += block.bytes;
  }
  const int64_t most = *std::max_element(live.begin(), live.end());
  EXPECT_EQ(most, facts["lower_bound"].get<int64_t>());
  EXPECT_LE(most, facts["arena_bytes"].get<int64_t>());
}

using VizMemory = ToolTest;

TEST_F(VizMemory, DrawsTheLivesOfThePlan) {
  // Covers the demo's model and a deep one.
  for (const auto& [layers, options] : {std::pair{"4", "adamw,clip=1.0"}, {"24", "adamw"}}) {
    const std::string model = path("model.genesis"), train = path("train.genesis");
    Words build = {"qwen2", "-o", model};
    for (const char* setting :
         {"hidden_size=16", "intermediate_size=32", "num_attention_heads=2", "num_key_value_heads=1"})
      build = build + Words{"--set", setting};
    expect_ok(run_tool("genesis-build", build + Words{"--set", std::string("num_hidden_layers=") + layers}));
    expect_ok(run_tool("genesis-opt", {model, "--train", options, "-o", train}));
    const Words sizes = {"--size", "batch=2", "--size", "seq=16"};
    expect_ok(run_tool("genesis-viz",
                       Words{train, "--entry", "train_step", "--memory", "-o", path("m.svg")} + sizes));
    const std::vector<Block> blocks = blocks_of(read_text(path("m.svg")));
    EXPECT_GT(blocks.size(), 50u);
    check_no_overlap(blocks);
    check_live_bytes(blocks, plan_facts(train, sizes));
  }
}

}  // namespace
}  // namespace genesis::testing
