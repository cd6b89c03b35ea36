#include "models/text/cross_encoder.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/open_model.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

int64_t labels_of(const Model& model, const std::string& file) {
  const Graph* forward = model.find_entry("forward");
  if (forward && model.find_entry("hidden"))
    for (const NamedValue& output : forward->outputs())
      if (const Shape& shape = forward->type(output.value).shape;
          output.name == "logits" && shape.rank() == 2)
        return shape[1].value();
  fail(
      "{} is no classifier of texts, so it has no scores of pairs: expected an encoder with a head for "
      "sequence "
      "classification",
      file);
}

bool has_sigmoid(const Model& model, int64_t labels) {
  const auto config = model.metadata.find("config");
  const nlohmann::json settings =
      config == model.metadata.end() ? nlohmann::json() : try_parse_json_text(config->second);
  const nlohmann::json activation =
      settings.is_object() ? settings.value("score_activation", nlohmann::json()) : nlohmann::json();
  return activation == "sigmoid" || (activation != "identity" && labels == 1);
}

}  // namespace

struct CrossEncoder::Impl {
  Impl(std::shared_ptr<const Model> model, const std::string& name, SessionOptions options)
      : file(name),
        labels(labels_of(*model, name)),
        sigmoid(has_sigmoid(*model, labels)),
        texts(*model, name),
        session(std::move(model), std::move(options)) {}

  std::string file;
  int64_t labels;
  bool sigmoid;
  EncoderTexts texts;
  Session session;
};

CrossEncoder CrossEncoder::open(const std::string& path, SessionOptions session) {
  return CrossEncoder(models::open_model(path), path, std::move(session));
}

CrossEncoder::CrossEncoder(std::shared_ptr<const Model> model, const std::string& file,
                           SessionOptions session)
    : impl_(std::make_unique<Impl>(std::move(model), file, std::move(session))) {}
CrossEncoder::~CrossEncoder() = default;
CrossEncoder::CrossEncoder(CrossEncoder&&) noexcept = default;

Tensor CrossEncoder::scores(const std::vector<std::pair<std::string, std::string>>& pairs,
                            const PairOptions& options) {
  std::vector<EncodedTexts> encoded;
  for (const auto& [first, second] : pairs) {
    encoded.push_back(impl_->texts.encode(first, second));
    const int64_t read = std::ssize(encoded.back().ids), dropped = encoded.back().dropped;
    if (dropped > 0 && options.on_truncated) options.on_truncated(encoded.size() - 1, read + dropped, read);
  }
  const Tensor logits = run_in_batches(impl_->session, "forward", "logits", encoded,
                                       {.batch = options.batch, .longest = longest_text()});
  if (!impl_->sigmoid) return logits;
  std::vector<float> scores;
  for (const double x : logits.to_doubles()) scores.push_back(static_cast<float>(1 / (1 + std::exp(-x))));
  return Tensor::of({logits.size(0), logits.size(1)}, scores);
}

std::vector<Ranked> CrossEncoder::rank(const std::string& query, const std::vector<std::string>& documents,
                                       const PairOptions& options) {
  if (labels() != 1)
    fail("{} gives {} scores for each pair of texts: documents are ranked by one", impl_->file, labels());
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& document : documents) pairs.emplace_back(query, document);
  const std::vector<double> values = scores(pairs, options).to_doubles();
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < values.size(); ++i) ranked.push_back({i, values[i]});
  std::ranges::stable_sort(ranked, std::greater(), &Ranked::score);
  return ranked;
}

int64_t CrossEncoder::labels() const { return impl_->labels; }
int64_t CrossEncoder::longest_text() const { return impl_->texts.longest(); }
Session& CrossEncoder::session() { return impl_->session; }

}  // namespace genesis::text
