// Tests that names and metadata of a file reach no terminal unescaped, and that JSON stays valid whatever they
// contain.
#include "tools/common/printable.h"

#include "schema/file/json_text.h"
#include "schema/file/writer.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "tests/tools/tool_test.h"
#include "tools/common/json_values.h"

namespace genesis::testing {
namespace {

using namespace genesis::tools;

TEST(Printable, OnlyWhatATerminalObeysChanges) {
  EXPECT_EQ(printable("layers.0 häß 中文 😀"), "layers.0 häß 中文 😀");
  EXPECT_EQ(printable("a\x1b[31mb\r\n\t\x7f"), "a\\x1b[31mb\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // C1's CSI
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b\xe2\x81\xa6"),
            "a\\u202eb\\u2066");  // writing from right to left
  EXPECT_EQ(printable("\xff\xc3(\xed\xa0\x80\xc0\xaf\xe4\xb8"),
            "\\xff\\xc3(\\xed\\xa0\\x80\\xc0\\xaf\\xe4\\xb8");
  EXPECT_EQ(printable("\xf3\xa0\x80\x81"), "\\U000e0001");
  EXPECT_EQ(printable_lines("a\n\tb\x1b"), "a\n\tb\\x1b");
  EXPECT_EQ(printable_json("\"\x7f\xc2\x9b\xe2\x80\xae\xf3\xa0\x80\x81\""),
            R"("\u007f\u009b\u202e\udb40\udc01")");
}

TEST(Printable, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(shortened("short"), "\"short\"");
  EXPECT_EQ(shortened(std::string(59, 'a') + "中" + std::string(100, 'b')),
            "\"" + std::string(59, 'a') + "...\" (162 bytes)");
  const std::string line = error_line("no file '" + std::string(5000, 'x') + "' here\nnor \x1b there");
  EXPECT_LT(line.size(), 250u);
  EXPECT_NE(line.find("bytes left out"), std::string::npos);
  EXPECT_NE(line.find("here nor \\x1b there"), std::string::npos) << line;
  std::string words;
  for (int i = 0; i < 5000; ++i) words += "word ";
  EXPECT_LT(error_line(words).size(), 4100u);
}

TEST(JsonValues, WhatIsNoNumberInJsonIsAString) {
  const auto json = tensor_json(Tensor::of<float>({2, 3}, {0.1f, NAN, INFINITY, -INFINITY, -0.0f, 3}), 5);
  EXPECT_EQ(json.dump(), R"({"dtype":"f32","shape":[2,3],"values":[0.1,"NaN","Infinity","-Infinity",-0.0],)"
                         R"("values_left_out":1})");
  const auto whole = tensor_json(Tensor::of<int64_t>({}, {9007199254740993}), 9);
  EXPECT_EQ(whole["values"][0].get<int64_t>(), 9007199254740993) << "not by way of a double";
  EXPECT_EQ(tensor_json(Tensor::of<bool>({2}, {true, false}), 9)["values"].dump(), "[true,false]");
  EXPECT_EQ(tensor_json(Tensor::zeros({DType::f32, {0}}), 9)["values"].dump(), "[]");
}

// File formats allow this: metadata values may have any bytes, and names are UTF-8 without control characters.
const std::string kEvil = "e\xe2\x80\xae";
const std::string kWorse = kEvil +
                           "\xc2\x9b"
                           "31m\xff\x1b]0;owned\x07\x1b[2J\nsaved";

// Makes a valid file in which all text consists of terminal commands.
std::string evil_file(const std::string& path) {
  Model model;
  model.metadata = {{"key" + kEvil, "value" + kWorse}};
  const Tensor weight = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  model.add_state({"weight" + kEvil, weight.type(), StateRole::kParameter, true, weight});
  Graph& graph = model.add_entry("forward" + kEvil);
  const Value x = graph.add_input("x" + kEvil, {DType::f32, {Dim::symbol("batch"), Dim(2)}});
  const NameScope scope(graph, "layer" + kEvil);
  graph.add_output("y" + kEvil, exp(linear(x, graph.state(0))));
  save_model(model, path);
  return path;
}

// Checks the text that a terminal would get.
void expect_harmless(const std::string& text, const std::string& what) {
  for (const char* bad : {"\x1b", "\x07", "\xc2\x9b", "\xe2\x80\xae", "\xff", "\nsaved"})
    EXPECT_EQ(text.find(bad), std::string::npos) << what << ": " << text;
}

using EvilFile = ToolTest;

TEST_F(EvilFile, ReachesNoTerminal) {
  const std::string file = evil_file(path("evil.genesis")), entry = "forward" + kEvil;
  const std::vector<std::pair<std::string, Words>> commands = {
      {"genesis-run", {"info", file, "--states"}},
      {"genesis-run", {"info", file, "--device", "cpu", "--size", "batch=2"}},
      {"genesis-run", {"infer", file, "--entry", entry}},
      {"genesis-run", {"infer", file, "--entry", "other"}},
      {"genesis-run", {"infer", file, "--entry", entry, "--input", "other=zeros"}},
      {"genesis-run", {"infer", file, "--entry", entry, "--size", "other=3"}},
      {"genesis-run", {"profile", file, "--entry", entry, "--runs", "1"}},
      {"genesis-run", {"compare", file, "--entry", entry, "--tolerance", "0"}},
      {"genesis-opt", {file, "--text"}},
      {"genesis-opt", {file, "--print-after", "all"}},
      {"genesis-opt", {file, "--check", "cpu", "--size", "batch=2"}},
      {"genesis-opt", {file, "--check", "cpu"}},
  };
  for (const auto& [tool, words] : commands) {
    const Process process = run_tool(tool, words);
    expect_harmless(process.out + process.err, words[0] + " " + words.back());
  }
  expect_harmless(run_tool("genesis-run", {"infer", file, "--entry", kWorse}).err, "what a user wrote");
  const std::string text = expect_ok(run_tool("genesis-run", {"info", file}));
  EXPECT_NE(text.find("valuee\\u202e\\u009b31m\\xff\\x1b]0;owned\\x07"), std::string::npos) << text;
}

TEST_F(EvilFile, StaysJson) {
  const std::string file = evil_file(path("evil.genesis")), entry = "forward" + kEvil;
  for (const auto& [tool, words] : std::vector<std::pair<std::string, Words>>{
           {"genesis-run", {"info", file, "--states", "--json"}},
           {"genesis-run", {"infer", file, "--entry", entry, "--json"}},
           {"genesis-run",
            {"profile", file, "--entry", entry, "--runs", "1", "--json", "--trace", path("t.json")}},
           {"genesis-run", {"compare", file, "--entry", entry, "--json"}},
           {"genesis-opt", {file, "--json", "--text"}}}) {
    const Process process = run_tool(tool, words);
    expect_json(process);
    expect_harmless(process.out, words[0]);
  }
  EXPECT_TRUE(try_parse_json_text(read_text(path("t.json"))).is_object());
}

}  // namespace
}  // namespace genesis::testing
