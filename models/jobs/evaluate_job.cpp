#include "models/jobs/evaluate_job.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "models/generation/vocabulary.h"
#include "models/jobs/train_data.h"
#include "models/open_model.h"

namespace genesis::jobs {

double EvaluationReport::bits_per_byte() const {
  return bytes > 0 ? evaluation.nats / std::numbers::ln2 / static_cast<double>(bytes) : 0;
}

void check_can_evaluate(const Model& model, const std::string& file, const text::EvaluationTexts& texts,
                        const text::EvaluateOptions& options) {
  text::check_tokens_fit(texts, model, file);
  const int64_t window = std::min(options.seq, texts.longest() - 1);
  text::check_positions(model, window);
  warn_of_positions(model, window);
}

EvaluationReport evaluate(Session& session, const std::string& file, const text::EvaluationTexts& texts,
                          const text::EvaluateOptions& options) {
  EvaluationReport report{.bytes = texts.bytes};
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < texts.tokens.size(); ++i) {
    report.evaluation.add(text::evaluate(session, texts.tokens[i], options, texts.counts_of(i)));
    if (const double nats = report.evaluation.nats; !std::isfinite(nats))
      fail("the loss of {} is {}: run with --find-nonfinite to see which node made it first", file,
           std::isnan(nats) ? "NaN" : "infinite");
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

EvaluationReport evaluate(const EvaluateJob& job) {
  const std::shared_ptr<const Model> model = models::open_model(job.model);
  const text::EvaluationTexts texts = text::read_evaluation_texts(job.source, *model, job.model);
  check_can_evaluate(*model, job.model, texts, job.options);
  Session session(model, job.session);
  return evaluate(session, job.model, texts, job.options);
}

}  // namespace genesis::jobs
