#include "executor/training/evaluator.h"

#include <algorithm>

#include "passes/training/evaluation.h"
#include "passes/training/plateau.h"

namespace genesis {
namespace {

// Returns how many batches to take if `asked` are wanted: no more than one pass over the data has.
int64_t batches_of(const BatchSource& source, int64_t asked) {
  const int64_t all = source.batches_per_epoch();  // 0: endless
  return all > 0 && asked > 0 ? std::min(asked, all) : std::max(asked, all);
}

}  // namespace

Evaluator::Evaluator(Session& session, BatchSource& source, int64_t batches)
    : session_(session), source_(source), batches_(batches_of(source, batches)) {
  if (batches_ < 1) fail("the data to evaluate has no end: say how many batches of it to take");
  for (const char* entry : {passes::kEvaluationEntry, passes::kEvaluatedEntry}) session.model().entry(entry);
}

Evaluation Evaluator::run() {
  Evaluation evaluation = over_data();
  const NamedTensors loss = {{"loss", Tensor::scalar(static_cast<float>(evaluation.loss))}};
  evaluation.since_best = session_.run(passes::kEvaluatedEntry, loss).at("since_best").item<int64_t>();
  if (session_.model().find_entry(optim::kPlateauEntry)) session_.run(optim::kPlateauEntry, loss);
  return evaluation;
}

// Computes the same means as genesis-run eval: each batch counts with its weight, the amount of data in it that counts. A batch
// of weight 0 has no mean. Integer outputs are counts and are added up.
Evaluation Evaluator::over_data() {
  std::map<std::string, double> means, counts;
  double weights = 0;
  for (int64_t i = 0; i < batches_; ++i) {
    const NamedTensors outputs = session_.run(passes::kEvaluationEntry, source_.batch(i));
    const auto of_batch = outputs.find(passes::kEvaluationWeight);
    const double weight = of_batch == outputs.end() ? 1 : of_batch->second.item<double>();
    weights += weight;
    for (const auto& [name, value] : outputs) {
      if (!is_float(value.type().dtype))
        counts[name] += value.item<double>();
      else if (double& mean = means[name]; weight > 0 && name != passes::kEvaluationWeight)
        mean += weight * value.item<double>();
    }
  }
  Evaluation evaluation{.loss = means.at("loss") / weights, .outputs = std::move(counts)};
  for (const auto& [name, sum] : means)
    if (name != "loss" && name != passes::kEvaluationWeight) evaluation.outputs[name] = sum / weights;
  return evaluation;
}

}  // namespace genesis
