// Tests genesis-viz: every kind of picture in every format.
#include <map>

#include <csignal>
#include <map>
#include <regex>

#include "schema/file/writer.h"
#include "schema/graph/model.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/reshape.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

bool has_graphviz() { return run_process({"dot", "-V"}).code == 0; }

using Viz = ToolTest;

TEST_F(Viz, DrawsGraphsInEveryFormat) {
  if (!has_graphviz()) GTEST_SKIP() << "Graphviz's `dot` is not installed";
  const std::pair<const char*, const char*> starts[] = {
      {"svg", "<?xml"}, {"png", "\x89PNG"}, {"pdf", "%PDF"}, {"dot", "digraph"}, {"html", "<!doctype html>"}};
  for (const auto& [format, start] : starts) {
    const std::string file = path(std::string("decode.") + format);
    expect_ok(run_tool("genesis-viz", {tiny("qwen2.genesis"), "--entry", "decode", "-o", file}));
    EXPECT_EQ(read_text(file).rfind(start, 0), 0u) << file;
  }
  EXPECT_NE(read_text(path("decode.svg")).find("attention"), std::string::npos);
}

TEST_F(Viz, FoldsRepeatedLayers) {
  const Words words = {tiny("qwen2.genesis"), "--entry", "forward", "-o"};
  expect_ok(run_tool("genesis-viz", words + Words{path("folded.dot")}));
  expect_ok(run_tool("genesis-viz", words + Words{path("all.dot"), "--no-fold"}));
  EXPECT_LT(read_text(path("folded.dot")).size(), read_text(path("all.dot")).size());
}

TEST_F(Viz, ColorsByTimeMemoryAndDtype) {
  const Words sizes = {"--size", "batch=2", "--size", "seq=8"};
  const auto profile =
      run_tool("genesis-run", Words{"profile", tiny("qwen2.genesis"), "--runs", "1", "--json"} + sizes);
  write_text(path("profile.json"), expect_ok(profile));
  const Words words = {tiny("qwen2.genesis"), "--entry", "forward", "--color"};
  const std::map<std::string, Words> needs = {
      {"op", {}}, {"dtype", {}}, {"memory", sizes}, {"time", {"--profile", path("profile.json")}}};
  for (const auto& [color, more] : needs)
    expect_ok(run_tool("genesis-viz", words + Words{color, "-o", path(color + ".dot")} + more));
  EXPECT_NE(read_text(path("op.dot")), read_text(path("time.dot")));
  EXPECT_NE(read_text(path("op.dot")), read_text(path("memory.dot")));
}

// Returns the color of a box with this label in DOT text.
std::string fill_of(const std::string& dot, const std::string& label) {
  const size_t at = dot.find("[label=\"" + label);
  if (at == std::string::npos) return "no box " + label;
  const std::string mark = "fillcolor=\"";
  const size_t begin = dot.find(mark, at) + mark.size();
  return dot.substr(begin, dot.find('"', begin) - begin);
}

constexpr const char *kSame = "white", *kAdded = "#b5e7b5", *kGone = "#f4b6b6", *kChanged = "#ffe08a";

// Before: kept, other_op, other_shape, other_state, gone. After: the same, with `added` instead of `gone`.
void save_version(const std::string& file, bool after) {
  Model model;
  Graph& graph = model.add_entry("main");
  const Value x = graph.add_input("x", {DType::f32, {4, 6}});
  const auto node = [&](const char* op, const char* name, std::vector<Value> inputs,
                        Attributes attributes = {}) {
    return graph.add_node(*find_op(op), attributes, inputs, name)[0];
  };
  for (const char* name : {"first", "second"})
    model.add_state(
        {.name = name, .type = {DType::f32, {4, 6}}, .initial = Tensor::zeros({DType::f32, {4, 6}})});
  const Value kept = node("exp", "kept", {x});
  const Value op = node(after ? "tanh" : "neg", "other_op", {kept});
  const Value state = node("add", "other_state", {op, graph.state(after ? 1 : 0)});
  Attributes shape;
  shape.set("shape", after ? Shape{6, 4} : Shape{24});
  graph.add_output("y", node("reshape", "other_shape", {state}, shape));
  graph.add_output(after ? "new" : "old", node("exp", after ? "added" : "gone", {kept}));
  save_model(model, file);
}

TEST_F(Viz, DrawsDifferences) {
  save_version(path("before.genesis"), false);
  save_version(path("after.genesis"), true);
  const Words words = {path("before.genesis"), "--compare", path("after.genesis"), "-o", path("diff.dot")};
  const nlohmann::json nodes = expect_json(run_tool("genesis-viz", words + Words{"--json"}))["nodes"];
  EXPECT_EQ(nodes, (nlohmann::json{{"same", 1}, {"added", 1}, {"gone", 1}, {"changed", 3}}));
  const std::string dot = read_text(path("diff.dot"));
  for (const auto& [label, color] : {std::pair{"kept", kSame},
                                     {"x", kSame},
                                     {"added", kAdded},
                                     {"new", kAdded},
                                     {"gone", kGone},
                                     {"old", kGone},
                                     {"other_op", kChanged},
                                     {"other_shape", kChanged},
                                     {"other_state", kChanged},
                                     {"y", kChanged},
                                     {"1 same", kSame},
                                     {"1 added", kAdded},
                                     {"1 gone", kGone},
                                     {"3 changed", kChanged}})
    EXPECT_EQ(fill_of(dot, label), color) << label;
  for (const char* what : {"op: neg -> tanh", "type 0: f32[24] -> f32[6,4]",
                           "first f32[4,6] -> second f32[4,6]", "\"kept\" -> \"gone\" [color=\"#d04040\"",
                           "\"kept\" -> \"added\" [color=\"#2e9e2e\"", "\"in:x\" -> \"kept\";"})
    EXPECT_NE(dot.find(what), std::string::npos) << what;
}

TEST_F(Viz, AModelDoesNotDifferFromItself) {
  const std::string model = tiny("gpt2.genesis");
  const Process process = run_tool(
      "genesis-viz", {model, "--entry", "decode", "--compare", model, "--json", "-o", path("same.dot")});
  const nlohmann::json nodes = expect_json(process)["nodes"];
  const auto info = expect_json(run_tool("genesis-run", {"info", model, "--json"}));
  for (const auto& entry : info["entries"])
    if (entry["name"] == "decode") {
      EXPECT_EQ(nodes["same"], entry["nodes"]);
    }
  const std::string dot = read_text(path("same.dot"));
  EXPECT_EQ(dot.find("×4"), std::string::npos);  // two layers count as two, not two per file
  EXPECT_NE(dot.find("×2"), std::string::npos);
  for (const char* color : {kAdded, kGone, kChanged})
    EXPECT_EQ(dot.find(color), dot.rfind(color)) << "somewhere beside the legend: " << color;
}

TEST_F(Viz, TellsAnOptimisedModelFromItsSource) {
  expect_ok(run_tool("genesis-opt", {tiny("gpt2.genesis"), "-o", path("after.genesis")}));
  const Words words = {tiny("gpt2.genesis"),  "--entry", "decode",         "--compare",
                       path("after.genesis"), "-o",      path("diff.dot"), "--json"};
  const nlohmann::json nodes = expect_json(run_tool("genesis-viz", words))["nodes"];
  EXPECT_GT(nodes["gone"], 0);
  EXPECT_GT(nodes["same"], 0);
  save_version(path("other.genesis"), false);
  expect_error(run_tool("genesis-viz", {tiny("gpt2.genesis"), "--entry", "decode", "--compare",
                                        path("other.genesis"), "-o", path("x.dot")}),
               {"other.genesis", "no entry point 'decode'"});
}

size_t boxes_of(const std::string& dot) {
  size_t found = 0;
  for (size_t at = 0; (at = dot.find(", fillcolor=\"", at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST_F(Viz, FoldsWhatTheOptimizerRepeats) {
  Words build = {"qwen2", "-o", path("m.genesis")};
  for (const char* setting : {"hidden_size=16", "intermediate_size=32", "num_attention_heads=2",
                              "num_key_value_heads=1", "num_hidden_layers=24"})
    build = build + Words{"--set", setting};
  expect_ok(run_tool("genesis-build", build));
  expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--train", "adamw", "-o", path("t.genesis")}));
  const Words words = {path("t.genesis"), "--entry", "train_step", "-o"};
  expect_ok(run_tool("genesis-viz", words + Words{path("folded.dot")}));
  expect_ok(run_tool("genesis-viz", words + Words{path("all.dot"), "--no-fold"}));
  const std::string folded = read_text(path("folded.dot")), all = read_text(path("all.dot"));
  EXPECT_LT(boxes_of(folded), 150u);
  EXPECT_GT(boxes_of(all), 1000u);
  EXPECT_NE(folded.find("\"optimizer.sum_squares_*\\nsum_squares ×290  f32[]\""), std::string::npos);
  // The counts of ops in the boxes equal those of the entry point.
  std::map<std::string, int> drawn;
  static const std::regex kBox("label=\"[^\\\\\"]*\\\\n([a-z_0-9]+)(?: ×([0-9]+))?  ");
  for (std::sregex_iterator at(folded.begin(), folded.end(), kBox), end; at != end; ++at)
    drawn[(*at)[1].str()] += (*at)[2].matched ? std::stoi((*at)[2].str()) : 1;
  const auto info = expect_json(run_tool("genesis-run", {"info", path("t.genesis"), "--json"}));
  for (const auto& entry : info["entries"])
    if (entry["name"] == "train_step") {
      EXPECT_EQ(nlohmann::json(drawn), entry["ops"]);
    }
}

// Replaces Graphviz's program by a script.
std::vector<std::string> with_dot(const fs::path& folder, const std::string& script) {
  write_text(folder / "dot", "#!/bin/sh\n" + script);
  fs::permissions(folder / "dot", fs::perms::owner_all);
  return {"PATH=" + folder.string() + ":" + std::getenv("PATH")};
}

TEST_F(Viz, ALayoutThatTakesTooLongIsEnded) {
  fs::create_directories(path("bin"));
  ProcessOptions options;
  options.environment = with_dot(path("bin"), "echo $$ > " + path("pid") + "\nexec sleep 6000\n");
  const Words words = {tiny("qwen2.genesis"), "--entry", "forward", "--layout-seconds", "0.5", "-o",
                       path("x.svg")};
  expect_error(run_tool("genesis-viz", words, options),
               {"boxes after 0.5 s", "--no-fold", "--layout-seconds", ".dot"});
  // It may have ended before it could write its id.
  if (const std::string pid = fs::exists(path("pid")) ? read_text(path("pid")) : ""; !pid.empty()) {
    EXPECT_NE(kill(std::stoi(pid), 0), 0) << "the layout still runs";
  }
  EXPECT_FALSE(fs::exists(path("x.svg")));
  expect_usage_error(run_tool("genesis-viz", words + Words{"--layout-seconds", "-1"}), {"--layout-seconds"});
}

TEST_F(Viz, ALargeLayoutIsAnnounced) {
  fs::create_directories(path("bin"));
  ProcessOptions options;
  options.environment = with_dot(path("bin"), "echo '<svg></svg>'\n");
  const Words words = {tiny("gpt2.train.genesis"), "--entry", "train_step", "-o", path("x.svg")};
  EXPECT_EQ(run_tool("genesis-viz", words, options).err, "");
  const Process process = run_tool("genesis-viz", words + Words{"--no-fold"}, options);
  expect_ok(process);
  EXPECT_NE(process.err.find(" boxes with Graphviz"), std::string::npos) << process.err;
}

TEST_F(Viz, DrawsMemoryPlans) {
  const Words words = {tiny("qwen2.train.genesis"), "--entry", "train_step", "--memory", "-o", path("m.svg")};
  expect_ok(run_tool("genesis-viz", words + Words{"--size", "batch=2", "--size", "seq=8"}));
  EXPECT_NE(read_text(path("m.svg")).find("<rect"), std::string::npos);
  fs::remove(path("m.svg"));
  expect_error(run_tool("genesis-viz", words), {"'train_step'", "--size batch=N", "--size seq=N"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

TEST_F(Viz, DrawsLossCurves) {
  // A killed run may leave such a last line.
  write_text(path("m.jsonl"), "{\"step\":1,\"loss\":5.5}\n{\"step\":2,\"loss\":4.5}\n{\"step\":3,\"lo");
  const Words words = {"--loss",          path("m.jsonl"), "--baseline", "2.5",
                       "--baseline-name", "byte bigram",   "-o"};
  expect_ok(run_tool("genesis-viz", words + Words{path("loss.svg")}));
  EXPECT_NE(read_text(path("loss.svg")).find("byte bigram"), std::string::npos);
  expect_usage_error(run_tool("genesis-viz", words + Words{path("loss.png")}), {"loss.png", ".svg or .html"});
}

TEST_F(Viz, RefusesWhatItCannotDraw) {
  const std::string model = tiny("qwen2.genesis");
  expect_usage_error(run_tool("genesis-viz", {model, "-o", path("x.jpg")}), {"x.jpg", ".svg"});
  expect_error(run_tool("genesis-viz", {model, "--entry", "nope", "-o", path("x.dot")}),
               {"'nope'", "forward"});
  expect_usage_error(run_tool("genesis-viz", {model, "--color", "mauve", "-o", path("x.dot")}),
                     {"mauve", "dtype"});
  for (const char* file : {"no/x.dot", "no/x.svg", "no/x.html"})
    expect_error(run_tool("genesis-viz", {model, "-o", path(file)}), {file, "no folder"});
  expect_error(run_tool("genesis-viz", {"--loss", TinyModels::get().text(), "-o", path("x.svg")}),
               {"text.txt", "no steps", "--metrics"});
  expect_error(run_tool("genesis-viz", {model, "--color", "time", "--profile", TinyModels::get().text(), "-o",
                                        path("x.dot")}),
               {"not a profile", "genesis-run profile"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

// Returns the texts of a picture (names, labels and lines), without their positions.
std::multiset<std::string> texts_of(const std::string& svg) {
  static const std::regex kText("<(?:text|title)[^>]*>([^<]*)</");
  std::multiset<std::string> texts;
  for (std::sregex_iterator at(svg.begin(), svg.end(), kText), end; at != end; ++at) {
    std::string text = (*at)[1].str();  // Graphviz's version decides what is written as a numeric entity
    for (const auto& [entity, plain] :
         {std::pair{"&#45;", "-"}, {"&gt;", ">"}, {"&#160;", " "}, {"&nbsp;", " "}})
      for (size_t found; (found = text.find(entity)) != std::string::npos;)
        text.replace(found, std::string(entity).size(), plain);
    texts.insert(text);
  }
  return texts;
}

TEST_F(Viz, ThePicturesInTheDocumentsAreUpToDate) {
  if (!has_graphviz()) GTEST_SKIP() << "Graphviz's `dot` is not installed";
  const fs::path images = fs::path(GENESIS_SOURCE_ROOT) / "docs/images";
  ProcessOptions patient;
  patient.timeout_seconds = 3 * kHangs;
  expect_ok(run_process({(images / "make.sh").string(), GENESIS_BUILD_ROOT, folder().string()}, patient));
  const std::string advice = "run docs/images/make.sh BUILD";
  EXPECT_EQ(read_text(images / "loss.svg"), read_text(path("loss.svg"))) << advice;
  const auto drawn = texts_of(read_text(images / "graph.svg"));
  EXPECT_GT(drawn.size(), 50u);
  EXPECT_EQ(drawn, texts_of(read_text(path("graph.svg")))) << advice;
}

}  // namespace
}  // namespace genesis::testing
