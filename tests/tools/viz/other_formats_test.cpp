// Tests pages of other programs' files: an .onnx file against what ONNX's own library wrote into it, and damaged
// files.
#include "schema/core/error.h"
#include "schema/file/json_text.h"
#include "tests/schema/gguf_bytes.h"
#include "tests/tools/tool_test.h"
#include "tests/tools/viz/page.h"
#include "schema/file/other_formats/onnx/model_file.h"

namespace genesis::testing {
namespace {

// Made by tests/tools/viz/onnx_fixture.py.
#include "tests/tools/viz/onnx_fixture.inc"

std::span<const std::byte> fixture() { return std::as_bytes(std::span(kOnnxFixture)); }

TEST(OnnxFile, SaysWhatWasWritten) {
  const OnnxFile file = read_onnx_from(fixture());
  const OnnxGraph& graph = file.graph;
  EXPECT_EQ(graph.name, "small");
  EXPECT_EQ(file.opset, 17);
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[0].name, "/fc/Gemm");
  EXPECT_EQ(graph.nodes[0].op, "Gemm");
  EXPECT_EQ(graph.nodes[0].inputs, (std::vector<std::string>{"x", "fc.weight", "fc.bias"}));
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const auto pairs = [](const OnnxNode& node) {
    Pairs found;
    for (const OnnxAttribute& attribute : node.attributes)
      found.emplace_back(attribute.name, attribute.text);
    return found;
  };
  EXPECT_EQ(pairs(graph.nodes[0]), (Pairs{{"alpha", "0.5"}, {"transB", "1"}}));
  EXPECT_EQ(graph.nodes[1].op, "com.example::Twist");
  EXPECT_EQ(pairs(graph.nodes[1]), (Pairs{{"axes", "[0,-1]"}, {"mode", "\"fast\""}, {"scales", "[1.5,-2]"}}));
  ASSERT_EQ(graph.tensors.size(), 2u);
  EXPECT_EQ(graph.tensors[0].name, "fc.weight");
  EXPECT_EQ(graph.tensors[0].type.dtype, "f32");
  EXPECT_EQ(graph.tensors[0].type.shape, (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(graph.types.at("x").shape, (std::vector<std::string>{"batch", "3"}));
  EXPECT_EQ(graph.types.at("y").dtype, "f16");
  EXPECT_EQ(graph.inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(graph.outputs, std::vector<std::string>{"y"});
}

// Writes protobuf by hand: numbers and submessages.
std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}
std::string number(int field, int64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(static_cast<uint64_t>(value));
}
std::string piece(int field, const std::string& bytes) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}

// Returns a model with one initializer 'w' of element type `dtype`, and `values` after its sizes.
std::string model_with(const std::vector<int64_t>& dims, int dtype, const std::string& values) {
  std::string tensor;
  for (const int64_t dim : dims) tensor += number(1, dim);
  tensor += number(2, dtype) + piece(8, "w") + values;
  return piece(7, piece(2, "g") + piece(5, tensor));
}

struct LyingTensor {
  std::vector<int64_t> dims;
  int dtype;
  std::string values;
  std::string why;  // empty: the tensor is valid
};

TEST(OnnxFile, RefusesTensorsThatCannotBe) {
  constexpr int kF32 = 1, kI64 = 7, kString = 8, kI4 = 22;
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::string four = piece(9, std::string(16, 'x'));
  const LyingTensor cases[] = {
      {{-1, -5}, kF32, four, "a dimension of -1"},
      {{kHuge, kHuge}, kF32, four, "more than 64 bits can count"},
      {{kHuge, 4}, kF32, "", "more than 64 bits can count"},
      {{kHuge}, kF32, "", "more than 64 bits can count"},
      {{1000000, 1000000}, kF32, "", "0 values, expected 1000000000000"},
      {{2, 3}, kF32, four, "16 bytes of values, expected 24"},
      {{2, 2}, kF32, four, ""},
      {{0, 7}, kF32, "", ""},
      {{3}, kI64, piece(7, varint(1) + varint(300)), "2 values, expected 3"},
      {{2}, kI64, piece(7, varint(1) + varint(300)), ""},
      {{2}, kI64, number(7, 1) + number(7, -2), ""},
      {{3}, kI4, piece(9, "ab"), ""},
      {{5}, kI4, piece(9, "ab"), "2 bytes of values, expected 3"},
      {{2}, kString, piece(6, "a"), "1 values, expected 2"},
      {{4}, kF32, number(14, 1) + piece(13, piece(1, "length") + piece(2, "16")), ""},
      {{4}, kF32, number(14, 1) + piece(13, piece(1, "length") + piece(2, "15")), "15 bytes in another file"},
  };
  for (const auto& [dims, dtype, values, why] : cases) {
    const std::string model = model_with(dims, dtype, values);
    std::string said;
    try {
      read_onnx_from(std::as_bytes(std::span(model)));
    } catch (const Error& error) {
      said = error.what();
    }
    EXPECT_EQ(said.empty(), why.empty()) << said << why;
    EXPECT_NE(said.find(why), std::string::npos) << said << " instead of " << why;
    EXPECT_EQ(said.find("'w'") == std::string::npos, why.empty()) << said;
  }
}

// Bodies are nested deeply.
TEST(OnnxFile, RefusesGraphsWithinTooManyOthers) {
  std::string graph = piece(2, "g");
  for (int i = 0; i < 40; ++i)
    graph = piece(1, piece(4, "If") + piece(5, piece(1, "then_branch") + piece(6, graph)));
  const std::string model = piece(7, graph);
  EXPECT_THROW(read_onnx_from(std::as_bytes(std::span(model))), Error);
}

// Every truncated file is an Error or a smaller file, and so is every file with a changed byte.
TEST(OnnxFile, SurvivesDamage) {
  const std::vector<std::byte> whole(fixture().begin(), fixture().end());
  int refused = 0;
  const auto read = [&](const std::vector<std::byte>& bytes) {
    try {
      read_onnx_from(bytes);
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

using VizOtherFormats = ToolTest;

TEST_F(VizOtherFormats, ShowsAnOnnxFile) {
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

TEST_F(VizOtherFormats, ShowsTensorsOfASafetensorsFile) {
  expect_ok(run_tool("genesis-run", {"export", tiny("qwen2.genesis"), "-o", path("folder")}));
  const std::string file = path("folder/model.safetensors");
  expect_ok(run_tool("genesis-viz", {file, "-o", path("m.json")}));
  const PageReader page(parse_json_text(read_text(path("m.json"))));
  EXPECT_EQ(page.data["models"][0]["format"], "safetensors");
  EXPECT_GT(page.data["models"][0]["tensors"]["name"].size(), 10u);
}

TEST_F(VizOtherFormats, ShowsTensorsOfAGgufFile) {
  GgufBytes bytes;
  bytes.start(2, 2).fact("general.architecture", "llama").fact<uint32_t>("llama.block_count", 4, 3);
  bytes.tensor("blk.0.attn_q.weight", {32, 2}, 8, 0).tensor("output_norm.weight", {4}, 0, 96);  // Q8_0, F32
  write_text(path("m.gguf"), bytes.with_data(std::string(96 + 16, '\0')));
  expect_ok(run_tool("genesis-viz", {path("m.gguf"), "-o", path("m.json")}));
  const PageReader page(parse_json_text(read_text(path("m.json"))));
  const nlohmann::json& model = page.data["models"][0];
  EXPECT_EQ(model["format"], "gguf");
  EXPECT_EQ(model["metadata"],
            parse_json_text(R"([["general.architecture","llama"],["llama.block_count","3"]])"));
  EXPECT_EQ(model["tensors"]["bytes"], (nlohmann::json{68, 16}));
  const auto names = PageReader::undo_deltas(model["tensors"]["name"]);
  EXPECT_EQ(page.path(names[0]), "blk.0.attn_q.weight");
  const nlohmann::json& type = page.data["types"][model["tensors"]["type"][0].get<size_t>()];
  EXPECT_EQ(type["dtype"], "Q8_0");
  EXPECT_EQ(type["shape"], (nlohmann::json{2, 32}));
}

TEST_F(VizOtherFormats, RefusesWhatIsNone) {
  write_text(path("m.onnx"), "this is text");
  expect_error(run_tool("genesis-viz", {path("m.onnx"), "-o", path("m.html")}), {"m.onnx", "ONNX"});
  write_text(path("m.safetensors"), "this is text");
  expect_error(run_tool("genesis-viz", {path("m.safetensors"), "-o", path("m.html")}), {"m.safetensors"});
  for (const char* name : {"m.onnx", "m.safetensors", "m.gguf"}) {
    write_text(path(name), "");
    expect_error(run_tool("genesis-viz", {path(name), "-o", path("m.svg")}), {name, "-o FILE.html"});
  }
  expect_error(
      run_tool("genesis-viz", {tiny("mlp.genesis"), "--compare", path("m.onnx"), "-o", path("m.html")}),
      {"m.onnx", ".genesis"});
}

}  // namespace
}  // namespace genesis::testing
