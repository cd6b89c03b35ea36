#include "models/text/embedder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/chat/json_config.h"
#include "models/open_model.h"
#include "schema/graph/near_names.h"

namespace genesis::text {
namespace {

constexpr const char* kSettings = "config_sentence_transformers.json";

std::shared_ptr<const Model> checked(std::shared_ptr<const Model> model, const std::string& file) {
  if (model->find_entry("embed")) return model;
  fail(
      "{} makes no vectors of texts: it has no entry point 'embed'. `genesis-build FOLDER` adds it for a "
      "folder of "
      "sentence-transformers and for an encoder, and with --pooling for any language model",
      file);
}

using Vector = std::span<const float>;

double dot(Vector a, Vector b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}
double cosine(Vector a, Vector b) {
  const double lengths = std::max(std::sqrt(dot(a, a)), 1e-12) * std::max(std::sqrt(dot(b, b)), 1e-12);
  return dot(a, b) / lengths;
}
double euclidean(Vector a, Vector b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return -std::sqrt(sum);
}
double manhattan(Vector a, Vector b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return -sum;
}

using Similarity = double (*)(Vector a, Vector b);
Similarity similarity_named(const std::string& name) {
  for (const auto& [known, function] : {std::pair<const char*, Similarity>{"cosine", cosine},
                                        {"dot", dot},
                                        {"euclidean", euclidean},
                                        {"manhattan", manhattan}})
    if (name == known) return function;
  fail("there is no similarity '{}': expected cosine, dot, euclidean or manhattan", name);
}

// Returns the first `count` numbers of each row, with the length 1 if `normalize`.
Tensor shortened(const Tensor& rows, int64_t count, bool normalize) {
  const int64_t features = rows.size(1);
  std::vector<float> kept;
  const auto all = rows.as<float>();
  for (int64_t row = 0; row < rows.size(0); ++row) {
    const Vector vector = all.subspan(static_cast<size_t>(row * features), static_cast<size_t>(count));
    const double length = normalize ? std::max(std::sqrt(dot(vector, vector)), 1e-12) : 1;
    for (const float x : vector) kept.push_back(static_cast<float>(static_cast<double>(x) / length));
  }
  return Tensor::of({rows.size(0), count}, kept);
}

}  // namespace

struct Embedder::Impl {
  Impl(std::shared_ptr<const Model> model, const std::string& name, SessionOptions options)
      : file(name), texts(*checked(model, name), name), session(std::move(model), std::move(options)) {
    read_settings();
  }

  void read_settings() {
    const auto settings = chat::ConfigFiles::of_model(session.model(), file).object(kSettings);
    if (!settings) return;
    const auto named = settings->value("prompts", nlohmann::json());
    if (named.is_object())
      for (const auto& [name, prompt] : named.items())
        if (prompt.is_string()) prompts[name] = prompt;
    if (const auto name = settings->value("default_prompt_name", nlohmann::json()); name.is_string())
      default_prompt = prompts[name];
    if (const auto name = settings->value("similarity_fn_name", nlohmann::json()); name.is_string())
      similarity = with_context([&] { return similarity_named(name); },
                                [&] { return fmt::format("{}: {}", file, kSettings); });
  }

  std::string prompt_of(const EmbedOptions& options) const {
    if (options.prompt) return *options.prompt;
    if (options.prompt_name.empty()) return default_prompt;
    const auto found = prompts.find(options.prompt_name);
    if (found != prompts.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, prompt] : prompts) names.push_back(name);
    fail("{} has no prompt '{}'{}: {}", file, options.prompt_name, did_you_mean(options.prompt_name, names),
         names.empty() ? "it has none" : fmt::format("there are {}", fmt::join(names, ", ")));
  }

  std::string file;
  EncoderTexts texts;
  Session session;
  std::map<std::string, std::string> prompts;
  std::string default_prompt;
  Similarity similarity = cosine;
};

Embedder Embedder::open(const std::string& path, SessionOptions session) {
  return Embedder(models::open_model(path), path, std::move(session));
}

Embedder::Embedder(std::shared_ptr<const Model> model, const std::string& file, SessionOptions session)
    : impl_(std::make_unique<Impl>(std::move(model), file, std::move(session))) {}
Embedder::~Embedder() = default;
Embedder::Embedder(Embedder&&) noexcept = default;

Tensor Embedder::encode(const std::vector<std::string>& texts, const EmbedOptions& options) {
  const std::string prompt = impl_->prompt_of(options);
  if (options.dimensions < 0 || options.dimensions > features())
    fail("{} dimensions of vectors that have {}", options.dimensions, features());
  std::vector<EncodedTexts> encoded;
  for (const std::string& text : texts) {
    encoded.push_back(impl_->texts.encode(prompt + text));
    const int64_t read = std::ssize(encoded.back().ids), dropped = encoded.back().dropped;
    if (dropped > 0 && options.on_truncated) options.on_truncated(encoded.size() - 1, read + dropped, read);
  }
  const Tensor vectors = run_in_batches(impl_->session, "embed", "vectors", encoded,
                                        {.batch = options.batch,
                                         .longest = longest_text(),
                                         .prompt_lengths = impl_->texts.tokens_of_prompt(prompt)});
  if (!options.normalize && options.dimensions == 0) return vectors;
  return shortened(vectors, options.dimensions ? options.dimensions : features(), options.normalize);
}

Tensor Embedder::similarity(const Tensor& a, const Tensor& b) const {
  if (a.rank() != 2 || b.rank() != 2 || a.size(1) != b.size(1))
    fail("similarities of {} and {}: both must be [texts, features] with the same number of features",
         a.type().to_string(), b.type().to_string());
  const auto row_of = [](const Tensor& x, int64_t row) {
    return x.as<float>().subspan(static_cast<size_t>(row * x.size(1)), static_cast<size_t>(x.size(1)));
  };
  std::vector<float> results;
  for (int64_t i = 0; i < a.size(0); ++i)
    for (int64_t j = 0; j < b.size(0); ++j)
      results.push_back(static_cast<float>(impl_->similarity(row_of(a, i), row_of(b, j))));
  return Tensor::of({a.size(0), b.size(0)}, results);
}

int64_t Embedder::features() const {
  const Graph& entry = impl_->session.model().entry("embed");
  return entry.type(entry.outputs().front().value).shape[1].value();
}
int64_t Embedder::longest_text() const { return impl_->texts.longest(); }
const std::map<std::string, std::string>& Embedder::prompts() const { return impl_->prompts; }
Session& Embedder::session() { return impl_->session; }

}  // namespace genesis::text
