// Files of other programs as pages: an .onnx file against what ONNX's own library wrote into it, and damaged ones.
#include "schema/core/error.h"
#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"
#include "tests/tools/viz/page.h"
#include "tools/viz/foreign/onnx_file.h"

namespace genesis::testing {
namespace {

// Written by tests/tools/viz/onnx_fixture.py.
#include "tests/tools/viz/onnx_fixture.inc"

std::span<const std::byte> fixture() { return std::as_bytes(std::span(kOnnxFixture)); }

TEST(OnnxFile, SaysWhatWasWritten) {
  const viz::OnnxFile file = viz::read_onnx_from(fixture());
  EXPECT_EQ(file.graph, "small");
  ASSERT_EQ(file.nodes.size(), 3u);
  EXPECT_EQ(file.nodes[0].name, "/fc/Gemm");
  EXPECT_EQ(file.nodes[0].op, "Gemm");
  EXPECT_EQ(file.nodes[0].inputs, (std::vector<std::string>{"x", "fc.weight", "fc.bias"}));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(file.nodes[0].attributes, (Pairs{{"alpha", "0.5"}, {"transB", "1"}}));
  EXPECT_EQ(file.nodes[1].op, "com.example::Twist");
  EXPECT_EQ(file.nodes[1].attributes,
            (Pairs{{"axes", "[0,-1]"}, {"mode", "\"fast\""}, {"scales", "[1.5,-2]"}}));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "fc.weight");
  EXPECT_EQ(file.tensors[0].type.dtype, "f32");
  EXPECT_EQ(file.tensors[0].type.shape, (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(file.types.at("x").shape, (std::vector<std::string>{"batch", "3"}));
  EXPECT_EQ(file.types.at("y").dtype, "f16");
  EXPECT_EQ(file.inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(file.outputs, std::vector<std::string>{"y"});
}

// Every way to cut it short is an Error or a smaller file, and so is every changed byte.
TEST(OnnxFile, SurvivesDamage) {
  const std::vector<std::byte> whole(fixture().begin(), fixture().end());
  int refused = 0;
  const auto read = [&](const std::vector<std::byte>& bytes) {
    try {
      viz::read_onnx_from(bytes);
    } catch (const Error&) {
      ++refused;
    }
  };
  for (size_t size = 0; size < whole.size(); ++size)
    read({whole.begin(), whole.begin() + static_cast<int64_t>(size)});
  EXPECT_GT(refused, static_cast<int>(whole.size()) * 9 / 10);
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int value : {0x00, 0x7F, 0x80, 0xFF}) {
      std::vector<std::byte> damaged = whole;
      damaged[at] = static_cast<std::byte>(value);
      read(damaged);
    }
}

using VizForeign = ToolTest;

TEST_F(VizForeign, ShowsAnOnnxFile) {
  write_text(path("m.onnx"), std::string(reinterpret_cast<const char*>(fixture().data()), fixture().size()));
  expect_ok(run_tool("genesis-viz", {path("m.onnx"), "-o", path("m.json")}));
  const PageReader page(parse_json_text(read_text(path("m.json"))));
  EXPECT_EQ(page.data["models"][0]["format"], "onnx");
  const nlohmann::json& graph = page.entry("small")["snapshots"][0]["graph"];
  EXPECT_EQ(page.node_names(graph), (std::vector<std::string>{"fc.Gemm", "twist", "y"}));
  // fc.weight 0, fc.bias 1, x 2; results of the nodes 3, 4, 5
  EXPECT_EQ(PageReader::node_inputs(graph), (std::vector<std::vector<int64_t>>{{2, 0, 1}, {3}, {4, 3}}));
  EXPECT_EQ(graph["outputs"][0][1], 5);
  EXPECT_EQ(page.data["models"][0]["tensors"]["bytes"], (nlohmann::json{24, 8}));
}

TEST_F(VizForeign, ShowsTensorsOfASafetensorsFile) {
  expect_ok(run_tool("genesis-run", {"export", tiny("qwen2.genesis"), "-o", path("folder")}));
  const std::string file = path("folder/model.safetensors");
  expect_ok(run_tool("genesis-viz", {file, "-o", path("m.json")}));
  const PageReader page(parse_json_text(read_text(path("m.json"))));
  EXPECT_EQ(page.data["models"][0]["format"], "safetensors");
  EXPECT_GT(page.data["models"][0]["tensors"]["name"].size(), 10u);
}

TEST_F(VizForeign, RefusesWhatIsNone) {
  write_text(path("m.onnx"), "this is text");
  expect_error(run_tool("genesis-viz", {path("m.onnx"), "-o", path("m.html")}), {"m.onnx", "ONNX"});
  write_text(path("m.safetensors"), "this is text");
  expect_error(run_tool("genesis-viz", {path("m.safetensors"), "-o", path("m.html")}), {"m.safetensors"});
  expect_error(
      run_tool("genesis-viz", {tiny("mlp.genesis"), "--compare", path("m.onnx"), "-o", path("m.html")}),
      {"m.onnx", ".genesis"});
}

}  // namespace
}  // namespace genesis::testing
