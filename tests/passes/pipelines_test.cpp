#include "passes/pipelines.h"

#include <fstream>
#include <sstream>

#include "passes/core/bind.h"
#include "passes/core/rewriter.h"
#include "passes/training/train_step.h"
#include "tests/passes/large_graphs.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

TEST(Pipelines, EveryPassHasAReasonAndARowInTheDocs) {
  std::ifstream file(std::string(GENESIS_SOURCE_ROOT) + "/docs/passes.md");
  std::stringstream docs;
  docs << file.rdbuf();
  for (const auto pipeline : {preparation_pipeline(), low_precision_pipeline(), inference_pipeline(), training_pipeline()})
    for (const Pass& pass : pipeline) {
      EXPECT_FALSE(pass.why.empty()) << pass.name;
      EXPECT_NE(docs.str().find("| `" + std::string(pass.name) + "` |"), std::string::npos)
          << pass.name << " is not in docs/passes.md";
    }
}

TEST(Pipelines, ATrainingGraphIsOneThatUpdatesATrainableParameter) {
  const auto model = parse_text(R"(
state @w: f32[3] parameter trainable
state @frozen: f32[3] parameter
entry infer() {
  %n = neg(@w)
  update @frozen = %n
}
entry train() {
  %n = neg(@w)
  update @w = %n
}
)");
  EXPECT_EQ(pipeline_for(model->entry("infer")).data(), inference_pipeline().data());
  EXPECT_EQ(pipeline_for(model->entry("train")).data(), training_pipeline().data());
}

// Checks that passes which were skipped because they could change nothing would have changed nothing. Returns how
// many were skipped.
int expect_skipped_passes_change_nothing(const Graph& graph) {
  int skipped = 0;
  Graph current = bind(graph, {});
  for (const Pass& pass : pipeline_for(current)) {
    Graph next = pass.run(current, {});
    if (pass.may_change && !pass.may_change(current, {})) {
      ++skipped;
      EXPECT_TRUE(same_graph(current, next)) << pass.name;
    }
    current = std::move(next);
  }
  return skipped;
}

TEST(Pipelines, PassesThatAreSkippedWouldChangeNothing) {
  int skipped = 0;
  for (const auto& large : testing::large_graphs()) {
    SCOPED_TRACE(large.name);
    skipped += expect_skipped_passes_change_nothing(large.make(1500)->entry("main"));
  }
  const auto layers = testing::make_layers(60);
  add_training(*layers, parse_train_options("adamw,clip=1.0"));
  for (const auto& entry : layers->entries()) skipped += expect_skipped_passes_change_nothing(*entry);
  EXPECT_GT(skipped, 100);
}

// A file keeps one number per row of a cache, because a session may give the cache more rows.
TEST(Pipelines, FilesAreOptimizedWithoutThePassesOfSessions) {
  EXPECT_NO_THROW(check_pass_names(session_passes()));
  EXPECT_TRUE(session_passes().contains("one_row_starts"));
}

TEST(Pipelines, UnknownNamesAreErrors) {
  EXPECT_NO_THROW(check_pass_names({"simplify", "fuse_attention"}));
  try {
    check_pass_names({"simplfy"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(
                  "there is no pass 'simplfy' (did you mean 'simplify'?); the passes are: simplify, cse,"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace genesis::passes
