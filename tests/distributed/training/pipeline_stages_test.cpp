// Tests the distribution of layers over pipeline stages, and their schedule.
#include <gtest/gtest.h>

#include <set>

#include "models/zoo.h"
#include "passes/distribution/pipeline/schedule.h"
#include "passes/distribution/pipeline/stages.h"
#include "passes/training/train_step.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

using passes::one_forward_one_backward;
using passes::PipelineBlock;
using passes::PipelineSchedule;
using passes::PipelineSummary;

std::shared_ptr<Model> qwen(const std::string& training, bool is_tied = false) {
  std::shared_ptr<Model> model = models::make_model("qwen2",
                                                    {{"vocab_size", "61"},
                                                     {"hidden_size", "32"},
                                                     {"intermediate_size", "80"},
                                                     {"num_hidden_layers", "4"},
                                                     {"num_attention_heads", "4"},
                                                     {"num_key_value_heads", "2"},
                                                     {"max_position_embeddings", "32"},
                                                     {"tie_word_embeddings", is_tied ? "true" : "false"}},
                                                    5);
  if (!training.empty()) passes::add_training(*model, passes::parse_train_options(training));
  return model;
}

// The bubble is (P - 1) / (M + P - 1) if all stages take equally long.
TEST(PipelineSchedule, WaitsAsLongAsOneForwardOneBackwardDoes) {
  for (const auto& [stages, micro_batches] : {std::pair{1, 3}, {2, 1}, {2, 4}, {4, 4}, {4, 16}, {8, 3}}) {
    const std::vector<double> forward(static_cast<size_t>(stages), 1),
        backward(static_cast<size_t>(stages), 2);
    const PipelineSchedule schedule = one_forward_one_backward({forward, backward}, micro_batches);
    EXPECT_NEAR(schedule.bubble, (stages - 1.0) / (micro_batches + stages - 1.0), 1e-12)
        << stages << " stages, " << micro_batches << " micro-batches";
    EXPECT_EQ(schedule.blocks.size(), static_cast<size_t>(2 * stages * micro_batches));
  }
}

// A stage keeps activations of at most as many micro-batches as there are stages from it to the end.
TEST(PipelineSchedule, KeepsFewMicroBatches) {
  constexpr int64_t kStages = 4;
  const PipelineSchedule schedule = one_forward_one_backward({{1, 3, 1, 2}, {2, 5, 2, 2}}, 12);
  std::vector<int64_t> kept(kStages, 0), done(kStages, 0);
  for (const PipelineBlock& block : schedule.blocks) {
    const auto stage = static_cast<size_t>(block.stage);
    kept[stage] += block.is_backward ? -1 : 1;
    EXPECT_LE(kept[stage], kStages - block.stage);
    EXPECT_EQ(block.micro_batch, block.is_backward ? done[stage]++ : done[stage] + kept[stage] - 1);
  }
}

TEST(PipelineSchedule, WithoutBackwardPartsIsALine) {
  const PipelineSchedule schedule = one_forward_one_backward({{1, 1, 1}, {}}, 2);
  EXPECT_EQ(schedule.span, 4);
}

// Returns the names of the layers with weights, by stage.
std::vector<std::set<std::string>> layers_of(const Model& model, int64_t stages) {
  const std::vector<int64_t> plan = passes::plan_stages(model, stages);
  std::vector<std::set<std::string>> layers(static_cast<size_t>(stages));
  for (size_t i = 0; i < plan.size(); ++i)
    if (const State& state = model.states()[i]; state.role == StateRole::kParameter && plan[i] >= 0)
      layers[static_cast<size_t>(plan[i])].insert(state.name.substr(0, state.name.find(".weight")));
  return layers;
}

TEST(PipelineStages, AreNeighboringLayers) {
  const auto model = qwen("adamw,lr=1e-3");
  const auto layers = layers_of(*model, 2);
  EXPECT_TRUE(layers[0].contains("model.embed_tokens"));
  EXPECT_TRUE(layers[0].contains("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(layers[1].contains("model.layers.3.mlp.down_proj"));
  EXPECT_TRUE(layers[1].contains("lm_head"));
  size_t weights = 0;
  for (const State& state : model->states()) weights += state.role == StateRole::kParameter;
  size_t there = 0;
  const std::vector<int64_t> plan = passes::plan_stages(*model, 2);
  for (size_t i = 0; i < plan.size(); ++i)
    there += model->states()[i].role == StateRole::kParameter && plan[i] >= 0;
  EXPECT_EQ(there, weights);
}

// Moments are on the stage of their weights. The step counter is on every stage.
TEST(PipelineStages, KeepMomentsBesideTheirWeights) {
  const auto model = qwen("adamw,lr=1e-3");
  const std::vector<int64_t> plan = passes::plan_stages(*model, 3);
  const auto stage_of = [&](const std::string& state) {
    return plan[static_cast<size_t>(model->find_state(state))];
  };
  for (const State& state : model->states()) {
    if (state.role != StateRole::kParameter) continue;
    EXPECT_EQ(stage_of("optimizer." + state.name + ".m"), stage_of(state.name)) << state.name;
  }
  EXPECT_EQ(stage_of("optimizer.step"), -1);
}

TEST(PipelineStages, HaveAboutAsMuchToDo) {
  const auto model = qwen("adamw,lr=1e-3,accumulate=4");
  const PipelineSummary summary =
      passes::summarize_pipeline(*model, "train_step", {{"batch", 2}, {"seq", 16}}, 2);
  ASSERT_EQ(summary.stages.size(), 2u);
  const double share = summary.stages[0].flops / (summary.stages[0].flops + summary.stages[1].flops);
  EXPECT_GT(share, 0.3);
  EXPECT_LT(share, 0.7);
  EXPECT_EQ(summary.micro_batches, 4);
  EXPECT_GE(summary.bubble, 0.2 - 1e-9);  // (P - 1) / (M + P - 1)
  EXPECT_EQ(summary.stages[0].first, "model.embed_tokens");
}

TEST(PipelineStages, SayWhatDoesNotWork) {
  const auto model = qwen("adamw,lr=1e-3");
  const auto error = [&](const Model& of, const char* mesh, int zero) {
    return testing::error_of([&] { passes::find_stage_states(of, Mesh::parse(mesh), 0, zero); });
  };
  EXPECT_NE(error(*model, "pipeline=64", 0).find("take "), std::string::npos)
      << error(*model, "pipeline=64", 0);
  EXPECT_NE(error(*model, "pipeline=2,tensor=2", 0).find("do not go together yet"), std::string::npos);
  EXPECT_NE(error(*model, "pipeline=2", 1).find("--zero 0"), std::string::npos);
  EXPECT_NE(error(*qwen(""), "pipeline=2", 0).find("no entry point of this model trains"), std::string::npos);
}

}  // namespace
}  // namespace genesis
