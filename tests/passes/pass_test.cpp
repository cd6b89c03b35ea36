#include "passes/core/pass.h"

#include <filesystem>
#include <fstream>

#include "passes/core/rewriter.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

constexpr const char* kText = "entry f(x: f32[3]) {\n %a = neg(x)\n %dead = exp(x)\n return y = %a\n}";

Graph drop_dead(const Graph& graph, const PassContext&) { return without_dead_nodes(graph); }
Graph fails(const Graph&, const PassContext&) { fail("it does not work"); }
Graph breaks(const Graph& graph, const PassContext&) {
  Graph copy = copy_graph(graph, graph.model());
  const_cast<Node&>(copy.nodes()[0]).inputs[0] = ValueId{50};
  return copy;
}

Graph reads(const Graph& graph, const PassContext&) {
  for (const Node& node : graph.nodes())
    for (const ValueId input : node.inputs)
      if (input.index >= static_cast<int32_t>(graph.values().size())) fail("a value is missing");
  return graph.share();
}

constexpr Pass kDropDead{"drop_dead", "for the test", drop_dead};

TEST(RunPasses, ReportsAndCallsBackOnlyWhenTheGraphChanged) {
  const auto model = parse_text(kText);
  std::vector<PassReport> reports;
  std::vector<int> numbers;
  const Pass pipeline[] = {kDropDead, kDropDead};
  PipelineOptions options;
  options.reports = &reports;
  options.on_change = [&](int number, const Pass&, const Graph&) { numbers.push_back(number); };
  const Graph result = run_passes(model->entry("f"), pipeline, {}, options);
  EXPECT_EQ(result.nodes().size(), 1u);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_TRUE(reports[0].changed);
  EXPECT_FALSE(reports[1].changed);
  EXPECT_EQ(reports[0].nodes_before, 2u);
  EXPECT_EQ(reports[0].nodes_after, 1u);
  EXPECT_EQ(numbers, std::vector<int>{1});
}

// A pass that cannot change the graph is reported like one that changed nothing.
TEST(RunPasses, DoesNotRunWhatCannotChangeTheGraph) {
  const auto model = parse_text(kText);
  const Pass failing{"fails", "", fails, [](const Graph&, const PassContext&) { return false; }};
  std::vector<PassReport> reports;
  const Graph result = run_passes(model->entry("f"), {&failing, 1}, {}, {.reports = &reports});
  EXPECT_EQ(result.nodes().size(), 2u);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_FALSE(reports[0].changed);
  EXPECT_EQ(reports[0].nodes_after, 2u);
}

TEST(RunPasses, LeavesOutDisabledPasses) {
  const auto model = parse_text(kText);
  PipelineOptions options;
  options.disabled = {"drop_dead"};
  EXPECT_EQ(run_passes(model->entry("f"), {&kDropDead, 1}, {}, options).nodes().size(), 2u);
}

TEST(RunPasses, ErrorsNameThePass) {
  const auto model = parse_text(kText);
  const Pass failing{"fails", "", fails}, breaking{"breaks", "", breaks};
  for (const Pass& pass : {failing, breaking}) {
    for (const bool each : {true, false}) {
      const Pass pipeline[] = {kDropDead, pass};
      try {
        run_passes(model->entry("f"), pipeline, {}, {.verify_each = each});
        ADD_FAILURE();
      } catch (const Error& error) {
        EXPECT_NE(error.message().find("(in pass '" + std::string(pass.name) + "')"), std::string::npos)
            << error.message();
      }
    }
  }
}

// A later pass that cannot read a broken graph is not to blame.
TEST(RunPasses, ErrorsNameThePassThatBrokeTheGraph) {
  const auto model = parse_text(kText);
  const Pass pipeline[] = {{"breaks", "", breaks}, {"reads", "", reads}};
  for (const bool each : {true, false}) {
    try {
      run_passes(model->entry("f"), pipeline, {}, {.verify_each = each});
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("(in pass 'breaks')"), std::string::npos) << error.message();
    }
  }
}

TEST(RunPasses, DumpsToAFolder) {
  const auto model = parse_text(kText);
  const std::string folder = ::testing::TempDir() + "/genesis_dump-" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  PipelineOptions options;
  options.on_change = dump_to_folder(folder);
  run_passes(model->entry("f"), {&kDropDead, 1}, {}, options);
  std::ifstream file(folder + "/f.01-drop_dead.txt");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "entry f(x: f32[3]) {");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace genesis::passes
