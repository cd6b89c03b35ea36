// Tests pages and pictures of runs: concurrent threads, ranks of a mesh, the first value that is not finite, and
// summaries of weights.
#include <cmath>
#include <map>

#include "schema/file/json_text.h"
#include "schema/file/reader.h"
#include "tests/distributed/why_no_ranks.h"
#include "tests/tools/tool_test.h"
#include "tests/tools/viz/page.h"

namespace genesis::testing {
namespace {

using Json = nlohmann::json;

class VizRuns : public ToolTest {
 protected:
  PageReader page_of(const std::string& tool, const Words& words) const {
    expect_ok(run_tool(tool, words + Words{"-o", path("page.json")}));
    return PageReader(parse_json_text(read_text(path("page.json"))));
  }
  Words train() const { return {tiny("qwen2.train.genesis"), "--entry", "train_step"}; }
};

const Words kSizes = {"--size", "batch=4", "--size", "seq=16"};

// Checks that every step ran, that nothing overlaps on one track, and that nothing ran after the end.
void check_timeline(const Json& timeline, size_t steps, size_t ranks) {
  const Json& spans = timeline["spans"];
  std::map<std::pair<size_t, size_t>, double> us;  // by rank and step
  std::vector<double> ends(timeline["tracks"].size(), 0);
  for (size_t i = 0; i < spans["step"].size(); ++i) {
    const size_t track = spans["track"][i], step = spans["step"][i];
    const double start = spans["start_us"][i], end = spans["end_us"][i];
    ASSERT_LT(track, ends.size());
    EXPECT_GE(start, ends[track] - 0.011);
    EXPECT_GE(end, start);
    EXPECT_LE(end, timeline["total_us"]);
    ends[track] = end;
    us[{timeline["tracks"][track]["rank"], step}] += end - start;
  }
  EXPECT_EQ(us.size(), ranks * steps);
}

TEST_F(VizRuns, AProfileHasATrackForEachThread) {
  for (const std::string threads : {"1", "2"}) {
    const PageReader page = page_of(
        "genesis-run", Words{"profile"} + train() + kSizes + Words{"--runs", "2", "--threads", threads});
    const Json& entry = page.entry("train_step");
    const Json& timeline = entry.at("measured").at("timeline");
    check_timeline(timeline, entry["plan"]["steps"]["node"].size(), 1);
    EXPECT_LE(timeline["tracks"].size(), threads == "1" ? 1u : 2u);
    EXPECT_EQ(timeline["tracks"][0]["rank"], 0);
  }
}

TEST_F(VizRuns, ATraceIsDrawnWithItsTracks) {
  expect_ok(run_tool("genesis-run", Words{"profile"} + train() + kSizes +
                                        Words{"--runs", "1", "--threads", "2", "--trace", path("t.json")}));
  expect_ok(run_tool("genesis-viz", {"--trace", path("t.json"), "-o", path("t.svg")}));
  const std::string svg = read_text(path("t.svg"));
  for (const char* part : {"thread 0", "prefers-color-scheme", "product", "<rect class=\"k", "train_step"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(svg.find("one step after the other"), std::string::npos);
}

TEST_F(VizRuns, TracesThatAreNone) {
  write_text(path("a.json"), "{\"traceEvents\": 3}");
  expect_error(run_tool("genesis-viz", {"--trace", path("a.json"), "-o", path("t.svg")}),
               {"traceEvents", "a list"});
  write_text(path("a.json"), "[{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"name\": \"a\", \"ts\": \"now\"}]");
  expect_error(run_tool("genesis-viz", {"--trace", path("a.json"), "-o", path("t.svg")}),
               {"event 1", "'ts'"});
  write_text(path("a.json"), "[]");
  expect_error(run_tool("genesis-viz", {"--trace", path("a.json"), "-o", path("t.svg")}), {"no steps"});
  // A trace of another program: texts as ids, no names, and a hostile name.
  write_text(
      path("a.json"),
      "[{\"ph\": \"X\", \"pid\": \"p\", \"tid\": \"<t>\", \"name\": \"]]><b>\", \"ts\": 5, \"dur\": 100}]");
  expect_ok(run_tool("genesis-viz", {"--trace", path("a.json"), "-o", path("t.svg")}));
  EXPECT_EQ(read_text(path("t.svg")).find("<b>"), std::string::npos);
}

TEST_F(VizRuns, AMeshShowsWhatEachRankTakes) {
  const PageReader page = page_of("genesis-viz", train() + kSizes + Words{"--mesh", "data=2", "--zero", "1"});
  const Json& entry = page.entry("train_step");
  const Json& mesh = entry.at("mesh");
  EXPECT_EQ(mesh["axes"], "data=2");
  ASSERT_EQ(mesh["ranks"].size(), 2u);
  EXPECT_EQ(mesh["ranks"][0]["arena_bytes"], entry["plan"]["arena_bytes"]);
  EXPECT_EQ(entry["sizes"][0]["size"], 2);  // a rank's share of the batch of 4
  const Json check =
      expect_json(run_tool("genesis-opt", Words{tiny("qwen2.train.genesis"), "--check", "cpu", "--entry",
                                                "train_step", "--mesh", "data=2", "--zero", "1", "--json"} +
                                              kSizes))["entries"][0];
  EXPECT_EQ(mesh["traffic"][0]["bytes"], check["exchanged"]["data"]["bytes"]);
  std::map<std::string, int64_t> states;
  for (const Json& row : mesh["ranks"][1]["state_bytes"]) states[row[0]] = row[1];
  EXPECT_EQ(states["optimizer"], check["optimizer_bytes"]);
  expect_ok(
      run_tool("genesis-viz", train() + kSizes + Words{"--mesh", "data=2", "--memory", "-o", path("r.svg")}));
  const std::string svg = read_text(path("r.svg"));
  for (const char* part : {"rank 0", "rank 1", "optimizer", "along "})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
}

TEST_F(VizRuns, AMeshThatNothingIsSharedAlongIsRefused) {
  expect_error(run_tool("genesis-viz", {tiny("mlp.genesis"), "--mesh", "data=2", "-o", path("p.html")}),
               {"--mesh data=2", "exchanges"});
  expect_usage_error(run_tool("genesis-viz", train() + Words{"--mesh", "data", "-o", path("p.html")}),
                     {"mesh 'data'", "expected AXIS=RANKS"});
  for (const char* picture : {"p.html", "p.svg"})
    expect_error(run_tool("genesis-viz", train() + Words{"--size", "batch=15", "--size", "seq=8", "--mesh",
                                                         "data=4", "--memory", "-o", path(picture)}),
                 {"batch=15 cannot be shared by 4 ranks along 'data': take 12 or 16"});
  expect_usage_error(
      run_tool("genesis-viz", train() + Words{"--mesh", "data=2", "--graph-only", "-o", path("p.html")}),
      {"--mesh"});
}

TEST_F(VizRuns, RanksAreProfiledTogether) {
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  const PageReader page = page_of("genesis-run", Words{"profile"} + train() + kSizes +
                                                     Words{"--runs", "2", "--threads", "1", "--mesh",
                                                           "data=2", "--trace", path("t.json")});
  const Json& entry = page.entry("train_step");
  check_timeline(entry["measured"]["timeline"], entry["plan"]["steps"]["node"].size(), 2);
  EXPECT_EQ(entry["mesh"]["ranks"].size(), 2u);
  std::set<std::string> processes;
  size_t exchanges = 0;
  const Json trace = parse_json_text(read_text(path("t.json")));
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    exchanges += event.value("cat", "") == "communication";
  }
  EXPECT_EQ(processes.size(), 3u);  // two ranks, and the steps of rank 0 one after another
  EXPECT_GE(exchanges, 3u);
}

TEST_F(VizRuns, TheFirstValueThatIsNotFiniteHasAPage) {
  const Process process = run_tool("genesis-run", {"infer", tiny("mlp.genesis"), "--input", "x=full:nan",
                                                   "--find-nonfinite", "--nonfinite-page", path("n.json")});
  EXPECT_EQ(process.code, 1);
  const PageReader page(parse_json_text(read_text(path("n.json"))));
  EXPECT_EQ(page.data["view"], "numerics");
  const Json& first = page.data["numerics"]["first"];
  EXPECT_EQ(page.data["numerics"]["kind"], "nonfinite");
  EXPECT_NE(process.err.find("'" + page.path(first["author"]) + "'"), std::string::npos) << process.err;
  ASSERT_GE(first["values"].size(), 3u);
  EXPECT_EQ(first["values"][0]["role"], "output");
  EXPECT_GT(first["values"][0]["histogram"]["a_special"]["nan"], 0);
  EXPECT_EQ(first["values"][0]["histogram"]["b"].size(), 0u);
  const Json& x = first["values"][1];
  EXPECT_EQ(x["role"], "input");
  EXPECT_GT(x["histogram"]["a_special"]["nan"], 0);
  const Json& weight = first["values"][2]["histogram"];
  int64_t count = 0;
  for (const Json& cell : weight["a"]) count += cell.get<int64_t>();
  EXPECT_GT(count, 10);
  expect_usage_error(
      run_tool("genesis-run", {"infer", tiny("mlp.genesis"), "--nonfinite-page", path("n.html")}),
      {"--find-nonfinite"});
}

TEST_F(VizRuns, ATrainingStepThatIsNotFiniteHasAPage) {
  const std::string hot = path("hot.genesis");
  expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--train", "sgd,lr=1e30", "-o", hot}));
  expect_error(run_tool("genesis-run", {"train", hot, "--quiet", "--data", TinyModels::get().text(), "--seq",
                                        "16", "--find-nonfinite", "--nonfinite-page", path("n.html")}),
               {"is the first to produce"});
  const Json data = parse_json_text(data_of_page(read_text(path("n.html"))));
  EXPECT_EQ(data["numerics"]["entry"], "train_step");
  EXPECT_EQ(data["models"][0]["entries"][0]["name"], "train_step");
}

TEST_F(VizRuns, ValuesOfWeightsAreSummedUp) {
  const PageReader page = page_of("genesis-viz", {tiny("mlp.genesis"), "--values"});
  const Json& states = page.data["models"][0]["states"];
  const auto model = load_model(tiny("mlp.genesis"));
  ASSERT_EQ(states["values"].size(), model->states().size());
  for (size_t i = 0; i < model->states().size(); ++i) {
    const State& state = model->states()[i];
    const Json& values = states["values"][i];
    if (state.initial.empty_handle()) {
      EXPECT_TRUE(values.is_null());
      continue;
    }
    const std::vector<double> all = state.initial.to_doubles();
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    double sum = 0;
    for (const double value : all) sum += value;
    EXPECT_EQ(values["low"], *low);
    EXPECT_EQ(values["high"], *high);
    EXPECT_NEAR(values["mean"], sum / static_cast<double>(all.size()), 1e-9);
    EXPECT_EQ(values["first"][0], all[0]);
    int64_t count = 0;
    for (const Json& cell : values["counts"]) count += cell.get<int64_t>();
    EXPECT_EQ(count, static_cast<int64_t>(all.size()));
  }
  EXPECT_FALSE(page_of("genesis-viz", {tiny("mlp.genesis")}).data["models"][0]["states"].contains("values"));
}

}  // namespace
}  // namespace genesis::testing
