// genesis-viz: every kind of picture in every format it is written in.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

bool has_graphviz() { return run_process({"dot", "-V"}).code == 0; }

using Viz = ToolTest;

TEST_F(Viz, DrawsGraphsInEveryFormat) {
  if (!has_graphviz()) GTEST_SKIP() << "Graphviz's `dot` is not installed";
  const std::pair<const char*, const char*> starts[] = {
      {"svg", "<?xml"}, {"png", "\x89PNG"}, {"dot", "digraph"}, {"html", "<!doctype html>"}};
  for (const auto& [format, start] : starts) {
    const std::string file = path(std::string("decode.") + format);
    expect_ok(run_tool("genesis-viz", {tiny("qwen2.genesis"), "--entry", "decode", "-o", file}));
    EXPECT_EQ(read_text(file).rfind(start, 0), 0u) << file;
  }
  EXPECT_NE(read_text(path("decode.svg")).find("attention"), std::string::npos);
  EXPECT_NE(read_text(path("decode.html")).find("<svg"), std::string::npos);
}

TEST_F(Viz, FoldsRepeatedLayers) {
  const Words words = {tiny("qwen2.genesis"), "--entry", "forward", "-o"};
  expect_ok(run_tool("genesis-viz", words + Words{path("folded.dot")}));
  expect_ok(run_tool("genesis-viz", words + Words{path("all.dot"), "--no-fold"}));
  EXPECT_LT(read_text(path("folded.dot")).size(), read_text(path("all.dot")).size());
}

TEST_F(Viz, ColoursByTimeMemoryAndDtype) {
  const Words sizes = {"--size", "batch=2", "--size", "seq=8"};
  const auto profile =
      run_tool("genesis-run", Words{"profile", tiny("qwen2.genesis"), "--runs", "1", "--json"} + sizes);
  write_text(path("profile.json"), expect_ok(profile));
  const Words words = Words{tiny("qwen2.genesis"), "--entry", "forward"} + sizes;
  for (const char* color : {"op", "dtype", "memory", "time"}) {
    const std::string file = path(std::string(color) + ".dot");
    expect_ok(run_tool("genesis-viz",
                       words + Words{"--color", color, "--profile", path("profile.json"), "-o", file}));
  }
  EXPECT_NE(read_text(path("op.dot")), read_text(path("time.dot")));
  EXPECT_NE(read_text(path("op.dot")), read_text(path("memory.dot")));
}

TEST_F(Viz, DrawsDifferences) {
  expect_ok(run_tool("genesis-opt", {tiny("gpt2.genesis"), "-o", path("after.genesis")}));
  const Words words = {tiny("gpt2.genesis"), "--entry", "decode", "-o"};
  expect_ok(run_tool("genesis-viz", words + Words{path("diff.dot"), "--diff", path("after.genesis")}));
  expect_ok(run_tool("genesis-viz", words + Words{path("same.dot"), "--diff", tiny("gpt2.genesis")}));
  EXPECT_NE(read_text(path("diff.dot")), read_text(path("same.dot")));
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
  // The last line is what a run that was killed may leave.
  write_text(path("m.jsonl"), "{\"step\":1,\"loss\":5.5}\n{\"step\":2,\"loss\":4.5}\n{\"step\":3,\"lo");
  const Words words = {"--loss",          path("m.jsonl"), "--baseline", "2.5",
                       "--baseline-name", "byte bigram",   "-o"};
  expect_ok(run_tool("genesis-viz", words + Words{path("loss.svg")}));
  expect_ok(run_tool("genesis-viz", words + Words{path("loss.html")}));
  EXPECT_NE(read_text(path("loss.svg")).find("byte bigram"), std::string::npos);
  expect_error(run_tool("genesis-viz", words + Words{path("loss.png")}), {"loss.png", ".svg or .html"});
}

TEST_F(Viz, RefusesWhatItCannotDraw) {
  const std::string model = tiny("qwen2.genesis");
  expect_error(run_tool("genesis-viz", {model, "-o", path("x.jpg")}), {"x.jpg", ".svg"});
  expect_error(run_tool("genesis-viz", {model, "--entry", "nope", "-o", path("x.dot")}),
               {"'nope'", "forward"});
  expect_error(run_tool("genesis-viz", {model, "--color", "mauve", "-o", path("x.dot")}), {"mauve", "dtype"});
  for (const char* file : {"no/x.dot", "no/x.svg", "no/x.html"})
    expect_error(run_tool("genesis-viz", {model, "-o", path(file)}), {file, "no folder"});
  expect_error(run_tool("genesis-viz", {"--loss", TinyModels::get().text(), "-o", path("x.svg")}),
               {"no steps"});
  expect_error(run_tool("genesis-viz", {model, "--color", "time", "--profile", TinyModels::get().text(), "-o",
                                        path("x.dot")}),
               {"not a profile", "genesis-run profile"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

}  // namespace
}  // namespace genesis::testing
