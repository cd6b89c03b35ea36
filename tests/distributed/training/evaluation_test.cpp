// Tests evaluations that ranks share, and the weight of each batch in an evaluation.
#include "executor/training/evaluator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "executor/training/batch_source.h"
#include "passes/training/evaluation.h"
#include "schema/graph/text.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/distributed/training/small_training.h"

namespace genesis {
namespace {

using testing::FewTargets;

constexpr int64_t kBatches = 3;

std::vector<int64_t> to_vector(const Tensor& tensor) {
  const auto values = tensor.as<int64_t>();
  return {values.begin(), values.end()};
}

std::shared_ptr<const Model> evaluated(const std::string& options = "adamw,lr=1e-3") {
  const auto model = std::make_shared<Model>(*testing::training("qwen2", options));
  passes::add_evaluation(*model);
  return model;
}

// Computes the loss of a row from its logits in double.
double nats_of_row(const double* logits, size_t classes, int64_t target) {
  double sum = 0;
  for (size_t i = 0; i < classes; ++i) sum += std::exp(logits[i]);
  return std::log(sum) - logits[target];
}

double expected_mean(const std::shared_ptr<const Model>& model) {
  Session session(model);
  FewTargets source(model->entry("loss"));
  double sum = 0, count = 0;
  for (int64_t i = 0; i < kBatches; ++i) {
    const NamedTensors batch = source.batch(i);
    const std::vector<double> logits =
        session.run("forward", {{"tokens", batch.at("tokens")}}).at("logits").to_doubles();
    const std::vector<int64_t> targets = to_vector(batch.at("targets"));
    const size_t classes = logits.size() / targets.size();
    for (size_t t = 0; t < targets.size(); ++t) {
      if (targets[t] == FewTargets::kIgnored) continue;
      sum += nats_of_row(logits.data() + t * classes, classes, targets[t]);
      ++count;
    }
  }
  return sum / count;
}

double mean_on_one(const std::shared_ptr<const Model>& model) {
  Session session(model);
  FewTargets source(model->entry("loss"));
  return Evaluator(session, source, 0).run().loss;
}

TEST(Evaluation, EveryTargetCountsAlike) {
  const auto model = evaluated();
  const double expected = expected_mean(model);
  EXPECT_NEAR(mean_on_one(model), expected, 1e-6 * expected);
}

TEST(Evaluation, RanksComeToTheSameNumber) {
  for (const char* options : {"adamw,lr=1e-3", "adamw,lr=1e-3,ema=0.9"}) {
    const auto model = evaluated(options);
    const double alone = mean_on_one(model);
    for (const char* mesh_text : {"data=2", "data=4", "data=8", "data=2,tensor=2"}) {
      const Mesh mesh = Mesh::parse(mesh_text);
      std::vector<double> losses(static_cast<size_t>(mesh.ranks()));
      testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
        Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
        const auto source = share_of(std::make_unique<FewTargets>(model->entry("loss")), mesh, rank);
        losses[static_cast<size_t>(rank)] = Evaluator(session, *source, 0).run().loss;
      });
      for (const double loss : losses) EXPECT_EQ(loss, losses[0]) << mesh_text;
      EXPECT_NEAR(losses[0], alone, 1e-6 * alone) << mesh_text;
    }
  }
}

TEST(Evaluation, RanksShareWhatHasNoTargets) {
  const auto trained = std::make_shared<Model>(*testing::training("mlp", "sgd,lr=0.05"));
  passes::add_evaluation(*trained);
  const std::shared_ptr<const Model> model = trained;
  const auto loss_on = [&](const char* mesh_text) {
    const Mesh mesh = Mesh::parse(mesh_text);
    std::vector<double> losses(static_cast<size_t>(mesh.ranks()));
    testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
      Session session(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
      const auto source =
          share_of(std::make_unique<testing::Numbers>(model->entry("train_step")), mesh, rank);
      losses[static_cast<size_t>(rank)] = Evaluator(session, *source, 5).run().loss;
    });
    for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
    return losses[0];
  };
  const double alone = loss_on("data=1");
  EXPECT_NEAR(loss_on("data=4"), alone, 1e-6 * alone);
}

// A loss with class weights divides by the sum of weights.
TEST(Evaluation, ClassesCountAsMuchAsTheyWeigh) {
  const std::shared_ptr<Model> model = parse_text(R"(
state @w: f32[3] parameter trainable = (0.5, -1.0, 2.0)
tensor #classes: f32[3] = (1.0, 2.0, 4.0)
entry loss(x: f32[batch,3], target: i64[batch]) {
  %logits = mul(x, @w)
  %loss = cross_entropy(%logits, target, #classes) {ignore_index=7}
  return loss = %loss
}
)");
  model->metadata["training"] = "sgd";
  passes::add_evaluation(*model);
  Session session(model);
  const NamedTensors outputs =
      session.run(passes::kEvaluationEntry,
                  {{"x", Tensor::of<float>({3, 3}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9})},
                   {"target", Tensor::of<int64_t>({3}, std::vector<int64_t>{2, 7, 1})}});
  EXPECT_EQ(outputs.at(passes::kEvaluationWeight).item<double>(), 6);
}

}  // namespace
}  // namespace genesis
