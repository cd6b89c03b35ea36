// Tests the inputs of genesis-viz other than models: errors name the file, the place and what was expected there.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

using VizInputs = ToolTest;

TEST_F(VizInputs, MetricsThatAreNone) {
  const std::pair<const char*, Words> cases[] = {
      {"{\"step\":1,\"loss\":2}\n{\"step\":2}\n", {"line 2", "'loss'", "--metrics"}},
      {"{\"loss\":2}\n", {"line 1", "'step'"}},
      {"{\"step\":1,\"loss\":\"low\"}\n", {"line 1", "a number as 'loss', got a text"}},
      {"{\"step\":null,\"loss\":2}\n", {"line 1", "a number as 'step', got null"}},
      {"{\"step\":1,\"loss\":[2]}\n", {"line 1", "got a list"}},
      {"[1,2]\n", {"line 1", "a JSON object with numbers 'step' and 'loss', got a list"}},
      {"{\"step\":1,\"loss\":2}\n{\"step\":2,\n{\"step\":3,\"loss\":2}\n", {"line 2", "not JSON"}},
      {"{\"step\":1,\"loss\":1e999}\n{\"step\":3,\"loss\":2}\n", {"line 1", "not JSON"}},
      {"", {"no steps"}},
      {"{\"step\":1,\"loss\":null}\n", {"no step has a finite loss"}}};
  for (const auto& [text, parts] : cases) {
    write_text(path("m.jsonl"), text);
    expect_error(run_tool("genesis-viz", {"--loss", path("m.jsonl"), "-o", path("x.svg")}), parts);
    EXPECT_FALSE(fs::exists(path("x.svg")));
  }
}

TEST_F(VizInputs, ALossThatWasNotFiniteLeavesAGap) {
  write_text(path("m.jsonl"),
             "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":null}\n{\"step\":4,"
             "\"loss\":2}\n"
             "{\"step\":5,\"loss\":1}\n{\"step\":6,\"lo");
  expect_ok(run_tool("genesis-viz", {"--loss", path("m.jsonl"), "-o", path("x.svg")}));
  const std::string svg = read_text(path("x.svg"));
  size_t lines = 0;
  for (size_t at = 0; (at = svg.find("<polyline", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3u);  // two of the data, one smoothed
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST_F(VizInputs, LossesOfEvaluationsAreDrawnToo) {
  write_text(
      path("m.jsonl"),
      "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2,\"evaluation_loss\":7.5}\n{\"step\":3,\"loss\":2}\n"
      "{\"step\":4,\"loss\":1,\"evaluation_loss\":6.5}\n");
  expect_ok(run_tool("genesis-viz", {"--loss", path("m.jsonl"), "-o", path("x.svg")}));
  const std::string svg = read_text(path("x.svg"));
  size_t marks = 0;
  for (size_t at = 0; (at = svg.find("<circle", at)) != std::string::npos; ++at) ++marks;
  EXPECT_EQ(marks, 2u);
  EXPECT_NE(svg.find(">evaluation<"), std::string::npos);
  write_text(path("m.jsonl"), "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n");
  expect_ok(run_tool("genesis-viz", {"--loss", path("m.jsonl"), "-o", path("x.svg")}));
  EXPECT_EQ(read_text(path("x.svg")).find(">evaluation<"), std::string::npos);
}

TEST_F(VizInputs, ProfilesThatAreNone) {
  const std::pair<const char*, Words> cases[] = {
      {"", {"line 1", "not JSON", "genesis-run profile"}},
      {"{\n\"rows\": [\n{,}]}", {"line 3", "not JSON"}},
      {"{\"rows\": [{\"name\": \"a\", \"us\": 1e999}]}", {"too large"}},
      {"[]", {"not a profile", "got a list"}},
      {"{}", {"not a profile", "'rows'", "genesis-run profile"}},
      {"{\"rows\": {}}", {"a list as 'rows', got an object"}},
      {"{\"rows\": [1]}", {"row 1 of 'rows'", "got a number"}},
      {"{\"rows\": [{\"name\":\"a\",\"us\":1}, {\"us\":1}]}", {"row 2", "'name'"}},
      {"{\"rows\": [{\"name\":3,\"us\":1}]}", {"row 1", "a text as 'name', got a number"}},
      {"{\"rows\": [{\"name\":\"a\",\"us\":\"1\"}]}", {"row 1", "a number as 'us', got a text"}},
      {"{\"rows\": [{\"name\":\"nobody\",\"us\":1}]}", {"no node of entry point 'forward'", "--by-op"}}};
  for (const auto& [text, parts] : cases) {
    write_text(path("p.json"), text);
    expect_error(run_tool("genesis-viz", {tiny("qwen2.genesis"), "--entry", "forward", "--color", "time",
                                          "--profile", path("p.json"), "-o", path("x.dot")}),
                 Words{"p.json"} + parts);
  }
}

TEST_F(VizInputs, FlagsThatDoNotGoTogether) {
  const Words model = {tiny("qwen2.genesis"), "-o", path("x.svg")};
  expect_usage_error(run_tool("genesis-viz", model + Words{"--color", "time"}), {"--profile"});
  expect_usage_error(run_tool("genesis-viz", model + Words{"--memory", "--compare", "b"}), {"--compare"});
  expect_usage_error(run_tool("genesis-viz", model + Words{"--color", "op", "--compare", "b"}),
                     {"--compare"});
  expect_error(run_tool("genesis-viz", model + Words{"--color", "memory"}), {"--size batch=N"});
}

}  // namespace
}  // namespace genesis::testing
