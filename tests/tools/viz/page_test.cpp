// Tests the visualizer's page: its data equals the model and the plan, is small, and may contain any names.
#include "tests/tools/viz/page.h"

#include <sys/resource.h>

#include <map>

#include "schema/file/json_text.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/text.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const Words kSizes = {"--size", "batch=2", "--size", "seq=8"};

class VizPage : public ToolTest {
 protected:
  PageReader page_of(const Words& words) const {
    expect_ok(run_tool("genesis-viz", words + Words{"-o", path("page.json")}));
    return PageReader(parse_json_text(read_text(path("page.json"))));
  }
};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST_F(VizPage, HoldsTheDataThatJsonHolds) {
  const Words words = Words{tiny("qwen2.genesis"), "-o"};
  expect_ok(run_tool("genesis-viz", words + Words{path("m.html")}));
  expect_ok(run_tool("genesis-viz", words + Words{path("m.json")}));
  const std::string html = read_text(path("m.html"));
  EXPECT_EQ(html.rfind("<!doctype html>", 0), 0u);
  EXPECT_EQ(data_of_page(html), read_text(path("m.json")));
}

TEST_F(VizPage, AllowsNothingFromAnywhereElse) {
  expect_ok(run_tool("genesis-viz", {tiny("mlp.genesis"), "-o", path("m.html")}));
  const std::string html = read_text(path("m.html"));
  for (const char* rule : {"Content-Security-Policy", "default-src 'none'", "connect-src 'none'"})
    EXPECT_EQ(count(html, rule), 1u) << rule;
  for (const char* hole : {"'unsafe-inline'", "'unsafe-eval'", "src=\"http", "href=\"http"})
    EXPECT_EQ(count(html, hole), 0u) << hole;
}

// Compares every node of every entry point of every model of the zoo with the model itself.
TEST_F(VizPage, ShowsTheAuthorsGraph) {
  for (const char* file : {"mlp.genesis", "gpt2.train.genesis", "qwen2.train.genesis"}) {
    SCOPED_TRACE(file);
    const PageReader page = page_of({tiny(file)});
    const auto model = load_model(tiny(file));
    EXPECT_EQ(page.data["models"][0]["states"]["name"].size(), model->states().size());
    for (const auto& entry : model->entries()) {
      const nlohmann::json& snapshot = page.entry(entry->name())["snapshots"][0];
      EXPECT_EQ(snapshot["kind"], "author");
      const auto names = page.node_names(snapshot["graph"]);
      const auto inputs = PageReader::node_inputs(snapshot["graph"]);
      ASSERT_EQ(names.size(), entry->nodes().size());
      const auto table = PageReader::undo_deltas(snapshot["graph"]["values"]["name"]);
      std::vector<std::string> values;  // names by number
      for (const int64_t index : table) values.push_back(page.path(index));
      for (const Node& node : entry->nodes())
        for (const ValueId output : node.outputs) values.push_back(entry->value(output).name);
      for (size_t n = 0; n < names.size(); ++n) {
        const Node& node = entry->nodes()[n];
        EXPECT_EQ(names[n], node.name);
        EXPECT_EQ(page.text(snapshot["graph"]["nodes"]["op"][n]), node.op->name());
        ASSERT_EQ(inputs[n].size(), node.inputs.size());
        for (size_t i = 0; i < node.inputs.size(); ++i)
          EXPECT_EQ(values.at(static_cast<size_t>(inputs[n][i])), entry->value(node.inputs[i]).name)
              << node.name;
      }
    }
  }
}

TEST_F(VizPage, ShowsStatesWithTheirBytes) {
  const PageReader page = page_of({tiny("qwen2.train.genesis")});
  const auto model = load_model(tiny("qwen2.train.genesis"));
  const auto& states = page.data["models"][0]["states"];
  const auto names = PageReader::undo_deltas(states["name"]);
  for (size_t i = 0; i < names.size(); ++i) {
    const State& state = model->states()[i];
    EXPECT_EQ(page.path(names[i]), state.name);
    EXPECT_EQ(states["bytes"][i], state.type.bytes());
    EXPECT_EQ(page.text(states["role"][i]), name_of(state.role));
    EXPECT_EQ(page.data["types"][states["type"][i].get<size_t>()]["sizes"], state.type.shape.sizes());
  }
}

// Returns the bytes alive by step, computed from the blocks. Fails if two blocks share a place and a time.
std::vector<int64_t> alive(const nlohmann::json& plan) {
  const auto& blocks = plan["blocks"];
  std::vector<int64_t> bytes(plan["steps"]["node"].size(), 0);
  for (size_t i = 0; i < blocks["name"].size(); ++i) {
    for (int64_t step = blocks["first"][i]; step <= blocks["last"][i].get<int64_t>(); ++step)
      bytes.at(static_cast<size_t>(step)) += blocks["bytes"][i].get<int64_t>();
    EXPECT_LE(blocks["offset"][i].get<int64_t>() + blocks["bytes"][i].get<int64_t>(), plan["arena_bytes"]);
    for (size_t k = 0; k < i; ++k) {
      const auto part = [&](const char* name, size_t at) { return blocks[name][at].get<int64_t>(); };
      const bool together = part("first", i) <= part("last", k) && part("first", k) <= part("last", i);
      const bool overlap = part("offset", i) < part("offset", k) + part("bytes", k) &&
                           part("offset", k) < part("offset", i) + part("bytes", i);
      EXPECT_FALSE(together && overlap) << i << " and " << k;
    }
  }
  return bytes;
}

TEST_F(VizPage, ShowsThePlanThatIsMade) {
  const std::string model = tiny("qwen2.train.genesis");
  const PageReader page = page_of(Words{model, "--entry", "train_step"} + kSizes);
  const nlohmann::json& entry = page.entry("train_step");
  const nlohmann::json& plan = entry.at("plan");
  const nlohmann::json facts =
      expect_json(run_tool("genesis-opt", Words{model, "--check", "cpu", "--entry", "train_step", "--json"} +
                                              kSizes))["entries"][0];
  EXPECT_EQ(plan["arena_bytes"], facts["arena_bytes"]);
  const std::vector<int64_t> bytes = alive(plan);
  EXPECT_EQ(bytes, plan["live_bytes"].get<std::vector<int64_t>>());
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), plan["lower_bound_bytes"]);
  EXPECT_EQ(bytes[plan["peak_step"].get<size_t>()], plan["lower_bound_bytes"]);
  std::map<int, int> kinds;
  for (const auto& kind : plan["blocks"]["kind"]) ++kinds[kind.get<int>()];
  for (const int kind : {0, 1, 2, 3}) EXPECT_GT(kinds[kind], 0) << kind;
  for (const auto& size : entry["sizes"]) EXPECT_EQ(size["assumed"], false);
}

TEST_F(VizPage, ShowsEveryPassAndTheKernels) {
  const PageReader page = page_of(Words{tiny("qwen2.train.genesis"), "--entry", "train_step"} + kSizes);
  const nlohmann::json& entry = page.entry("train_step");
  const nlohmann::json& snapshots = entry["snapshots"];
  ASSERT_GT(snapshots.size(), 3u);
  EXPECT_EQ(snapshots.back()["kind"], "final");
  for (size_t i = 1; i + 1 < snapshots.size(); ++i) {
    const size_t before = snapshots[i - 1]["graph"]["nodes"]["op"].size(),
                 after = snapshots[i]["graph"]["nodes"]["op"].size();
    const nlohmann::json& change = snapshots[i]["change"];
    EXPECT_EQ(before + change["added"].size(), after + change["gone"].size()) << snapshots[i]["name"];
    EXPECT_GT(change["added"].size() + change["gone"].size() + change["changed"].size(), 0u)
        << snapshots[i]["name"];
  }
  const nlohmann::json& last = snapshots[snapshots.back()["same_as"].get<size_t>()]["graph"];
  const auto nodes = PageReader::undo_deltas(entry["plan"]["steps"]["node"]);
  for (const int64_t node : nodes) {
    const auto kernel = last["nodes"]["kernel"].at(static_cast<size_t>(node)).get<int64_t>();
    ASSERT_GE(kernel, 0);
    EXPECT_NE(page.data["kernels"].at(static_cast<size_t>(kernel))["name"], "");
  }
  bool has_declined = false;
  for (const auto& kernel : page.data["kernels"]) has_declined |= !kernel["declined"].empty();
  EXPECT_TRUE(has_declined);
}

TEST_F(VizPage, ShowsPlansUnderLessMemory) {
  const PageReader page = page_of(Words{tiny("qwen2.train.genesis"), "--entry", "train_step"} + kSizes);
  const nlohmann::json& budgets = page.entry("train_step")["budgets"];
  ASSERT_GE(budgets.size(), 2u);
  EXPECT_EQ(budgets[0]["recomputed"].size(), 0u);
  for (size_t i = 1; i < budgets.size(); ++i) {
    EXPECT_LT(budgets[i]["arena_bytes"], budgets[i - 1]["arena_bytes"]);
    EXPECT_LE(budgets[i]["arena_bytes"], budgets[i]["budget_bytes"]);
    EXPECT_GT(budgets[i]["recomputed"].size(), 0u);
  }
}

// Without sizes a page is made with example sizes, which it marks as assumed.
TEST_F(VizPage, AssumesSizesThatNobodyGave) {
  const PageReader page = page_of({tiny("qwen2.genesis"), "--entry", "forward", "--size", "seq=16"});
  std::map<std::string, nlohmann::json> sizes;
  for (const auto& size : page.entry("forward")["sizes"]) sizes[size["symbol"]] = size;
  EXPECT_EQ(sizes["seq"], (nlohmann::json{{"symbol", "seq"}, {"size", 16}, {"assumed", false}}));
  EXPECT_EQ(sizes["batch"], (nlohmann::json{{"symbol", "batch"}, {"size", 1}, {"assumed", true}}));
}

// Nobody gave a size: the model is shown, and why it cannot run with the sizes that are assumed.
TEST_F(VizPage, SaysWhyThereIsNoPlan) {
  save_model(
      *parse_text(
          "entry forward(x: f32[n]) {\n  %y = slice(x) {start=[100], length=[1]}\n  return y = %y\n}\n"),
      path("beyond.genesis"));
  const PageReader page = page_of({path("beyond.genesis")});
  EXPECT_EQ(page.entry("forward")["snapshots"].size(), 1u);
  EXPECT_NE(page.entry("forward")["problem"].get<std::string>().find("'y'"), std::string::npos)
      << page.entry("forward")["problem"];
}

const std::string kHostile[] = {"</script><script>alert(1)</script>",
                                "<!--",
                                "]]>",
                                "\" onload=\"alert(1)",
                                "back\\slash",
                                "javascript:alert(1)",
                                "turned \xe2\x80\xae around",
                                "\xe2\x80\xa8 a line of JavaScript",
                                "a..b.",
                                ".",
                                "__proto__",
                                "constructor",
                                std::string(4000, 'x'),
                                std::string(3000, '.')};

TEST_F(VizPage, NamesDoNothingButShow) {
  for (const std::string& name : kHostile) {
    SCOPED_TRACE(name.substr(0, 50));
    Model model;
    model.metadata["note"] = name + std::string(10000, 'x');
    Graph& graph = model.add_entry(name);
    const Value x = graph.add_input(name, {DType::f32, {4}});
    graph.add_output(name, graph.add_node(*find_op("exp"), {}, {x}, name)[0]);
    save_model(model, path("m.genesis"));
    const PageReader page = page_of({path("m.genesis")});
    const nlohmann::json& snapshot = page.entry(name)["snapshots"][0]["graph"];
    EXPECT_EQ(page.node_names(snapshot), std::vector<std::string>{graph.nodes()[0].name});
    EXPECT_EQ(page.path(snapshot["values"]["name"][0]), name);
    EXPECT_EQ(snapshot["outputs"][0][0], name);
    EXPECT_EQ(page.data["models"][0]["metadata"][0][1], name + std::string(10000, 'x'));
    expect_ok(run_tool("genesis-viz", {path("m.genesis"), "-o", path("m.html")}));
    EXPECT_EQ(data_of_page(read_text(path("m.html"))), read_text(path("page.json")));
  }
}

TEST_F(VizPage, ATrainingStepIsSmall) {
  Words build = {"qwen2", "-o", path("m.genesis")};
  for (const char* setting : {"hidden_size=16", "intermediate_size=32", "num_attention_heads=2",
                              "num_key_value_heads=1", "num_hidden_layers=24"})
    build = build + Words{"--set", setting};
  expect_ok(run_tool("genesis-build", build));
  expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--train", "adamw,clip=1.0", "--cast", "bf16", "-o",
                                     path("t.genesis")}));
  expect_ok(run_tool("genesis-viz", {path("t.genesis"), "--entry", "train_step", "--size", "batch=8",
                                     "--size", "seq=1024", "-o", path("t.html")}));
  const auto bytes = fs::file_size(path("t.html"));
  EXPECT_LT(bytes, 1500000u);
  EXPECT_GT(bytes, 10000u);
  RecordProperty("page_bytes", std::to_string(bytes));
}

// Returns the CPU time of the processes that this one has waited for.
double processor_seconds_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void save_chain(int nodes, const fs::path& file) {
  Model model;
  Graph& graph = model.add_entry("main");
  Value value = graph.add_input("x", {DType::f32, {4}});
  for (int i = 0; i < nodes; ++i)
    value = graph.add_node(*find_op(i % 2 ? "exp" : "tanh"), {}, {value},
                           fmt::format("layers.{}.unit.{}", i / 100, i % 100))[0];
  graph.add_output("y", value);
  save_model(model, file);
}

// The time of the pipeline and the plan for such a large graph is tested elsewhere. This tests the time that the page
// adds: it grows with the number of nodes and not with its square.
TEST_F(VizPage, ALargeGraphTakesSeconds) {
  constexpr int kNodes = 100000, kFew = kNodes / 10;
  const auto seconds_for = [&](int nodes) {
    save_chain(nodes, path("m.genesis"));
    const double start = processor_seconds_of_children();
    const PageReader page = page_of({path("m.genesis"), "--graph-only"});
    const double seconds = processor_seconds_of_children() - start;
    EXPECT_EQ(page.entry("main")["snapshots"][0]["graph"]["nodes"]["op"].size(), static_cast<size_t>(nodes));
    EXPECT_FALSE(page.entry("main").contains("plan"));
    return seconds;
  };
  const double few = seconds_for(kFew), many = seconds_for(kNodes);
  EXPECT_LT(many, 3 * few * kNodes / kFew + 1) << few << " s for " << kFew << " nodes";
  RecordProperty("milliseconds", std::to_string(static_cast<int>(1000 * many)));
}

TEST_F(VizPage, HoldsTwoModelsAgainstEachOther) {
  expect_ok(run_tool("genesis-build", {"mlp", "-o", path("a.genesis"), "--seed", "1"}));
  expect_ok(run_tool("genesis-build", {"mlp", "-o", path("b.genesis"), "--seed", "2"}));
  const PageReader page = page_of({path("a.genesis"), "--compare", path("b.genesis")});
  EXPECT_EQ(page.data["view"], "difference");
  const auto a = load_model(path("a.genesis")), b = load_model(path("b.genesis"));
  const nlohmann::json& states = page.data["difference"]["states"];
  const auto names = PageReader::undo_deltas(states["name"]);
  ASSERT_EQ(names.size(), a->states().size());
  for (size_t i = 0; i < names.size(); ++i) {
    const auto x = a->states()[i].initial.to_doubles(), y = b->states()[i].initial.to_doubles();
    double worst = 0, dot = 0, xx = 0, yy = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      worst = std::max(worst, std::abs(x[k] - y[k]));
      dot += x[k] * y[k], xx += x[k] * x[k], yy += y[k] * y[k];
    }
    EXPECT_EQ(page.path(names[i]), a->states()[i].name);
    EXPECT_EQ(states["status"][i], x == y ? 0 : 3);
    EXPECT_EQ(states["max_abs"][i], worst);
    if (xx * yy == 0) continue;
    EXPECT_NEAR(states["cosine"][i].get<double>(), dot / std::sqrt(xx * yy), 1e-12);
  }
  const PageReader same = page_of({path("a.genesis"), "--compare", path("a.genesis")});
  for (const auto& status : same.data["difference"]["states"]["status"]) EXPECT_EQ(status, 0);
}

// The bytes of a state are its stored bytes, not those of its type.
TEST_F(VizPage, ComparesTheBytesOfQuantizedStates) {
  expect_ok(run_tool("genesis-build",
                     {"qwen2", "--set", "hidden_size=64", "--set", "intermediate_size=128", "--set",
                      "num_hidden_layers=1", "--set", "vocab_size=300", "-o", path("f32.genesis")}));
  expect_ok(run_tool("genesis-opt", {path("f32.genesis"), "--quantize", "q8", "-o", path("q8.genesis")}));
  const PageReader page = page_of({path("f32.genesis"), "--compare", path("q8.genesis"), "--graph-only"});
  const nlohmann::json &states = page.data["difference"]["states"], &models = page.data["models"];
  const auto sum = [](const nlohmann::json& bytes) {
    int64_t all = 0;
    for (const auto& one : bytes) all += one.get<int64_t>();
    return all;
  };
  EXPECT_EQ(sum(states["bytes_before"]), sum(models[0]["states"]["bytes"]));
  EXPECT_EQ(sum(states["bytes_after"]), sum(models[1]["states"]["bytes"]));
  EXPECT_LT(sum(states["bytes_after"]), sum(states["bytes_before"]));
}

TEST_F(VizPage, ShowsWhatAProfileMeasured) {
  expect_ok(run_tool("genesis-run",
                     Words{"profile", tiny("qwen2.genesis"), "--runs", "1", "-o", path("p.json")} + kSizes));
  const PageReader page(parse_json_text(read_text(path("p.json"))));
  const nlohmann::json& entry = page.entry("forward");
  const nlohmann::json& steps = entry.at("measured").at("steps");
  ASSERT_EQ(steps["start_us"].size(), entry["plan"]["steps"]["node"].size());
  double last = 0;
  for (size_t i = 0; i < steps["start_us"].size(); ++i) {
    EXPECT_GE(steps["start_us"][i], last);
    EXPECT_GE(steps["end_us"][i], steps["start_us"][i]);
    last = steps["end_us"][i];
  }
  EXPECT_EQ(entry["measured"]["total_us"], last);
  // The median of a single run is the time of that run.
  for (size_t i = 0; i < steps["start_us"].size(); ++i)
    EXPECT_NEAR(steps["median_us"][i].get<double>(),
                steps["end_us"][i].get<double>() - steps["start_us"][i].get<double>(), 0.03);
  EXPECT_EQ(entry["measured"]["timeline"]["median_us"].size(), steps["start_us"].size());
  EXPECT_EQ(page.data["view"], "time");
  expect_ok(run_tool("genesis-run",
                     Words{"profile", tiny("qwen2.genesis"), "--runs", "1", "-o", path("p.html")} + kSizes));
  EXPECT_TRUE(parse_json_text(data_of_page(read_text(path("p.html")))).contains("models"));
}

TEST_F(VizPage, RefusesWhatItCannotShow) {
  const std::string model = tiny("qwen2.genesis"), out = path("x.html");
  expect_error(run_tool("genesis-viz", {model, "--entry", "nope", "-o", out}), {"'nope'", "forward"});
  expect_error(run_tool("genesis-viz", {model, "--size", "bach=2", "-o", out}),
               {"bach", "did you mean 'batch'"});
  for (const Words& more : {Words{"--entry", "forward"}, Words{}})
    expect_error(
        run_tool("genesis-viz", Words{model, "--size", "batch=9000000000000000000", "-o", out} + more),
        {"the limit for one tensor", "batch=9000000000000000000"});
  save_model(
      *parse_text("entry f(x: f32[n]) {\n  %y = slice(x) {start=[100], length=[1]}\n  return y = %y\n}\n"),
      path("long.genesis"));
  expect_error(run_tool("genesis-viz", {path("long.genesis"), "--size", "n=99", "-o", out}), {"'y'", "n=99"});
  fs::remove(path("long.genesis"));
  expect_error(run_tool("genesis-viz", {path("no.genesis"), "-o", out}), {"no.genesis"});
  expect_error(run_tool("genesis-viz", {model, "--compare", path("no.genesis"), "-o", out}), {"no.genesis"});
  expect_error(run_tool("genesis-viz", {"--loss", path("no.jsonl"), "-o", out}), {"no.jsonl"});
  expect_error(run_tool("genesis-viz", {"--loss", folder().string(), "-o", out}),
               {"no metrics", "--metrics"});
  expect_usage_error(run_tool("genesis-viz", {model, "--device", "tpu", "-o", out}), {"tpu", "cpu"});
  expect_usage_error(run_tool("genesis-viz", {model, "--color", "time", "-o", out}),
                     {"--color", "in a page"});
  expect_usage_error(run_tool("genesis-viz", {"--loss", "m.jsonl", "--entry", "x", "-o", out}),
                     {"--entry", "without a model"});
  expect_usage_error(run_tool("genesis-viz", {"-o", out}), {"a model file"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

}  // namespace
}  // namespace genesis::testing
