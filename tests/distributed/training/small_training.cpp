#include "tests/distributed/training/small_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "executor/training/batch_source.h"
#include "models/zoo.h"
#include "passes/training/train_step.h"
#include "tests/distributed/thread_ranks.h"

namespace genesis::testing {
namespace {

models::Settings tiny(const std::string& model, int64_t vocabulary) {
  if (model == "mlp") return {};
  if (model == "gpt2")
    return {{"vocab_size", std::to_string(vocabulary)},
            {"n_embd", "32"},
            {"n_layer", "2"},
            {"n_head", "4"},
            {"n_positions", "32"}};
  return {{"vocab_size", std::to_string(vocabulary)},
          {"hidden_size", "32"},
          {"intermediate_size", "80"},
          {"num_hidden_layers", "2"},
          {"num_attention_heads", "4"},
          {"num_key_value_heads", "2"},
          {"max_position_embeddings", "32"}};
}

// Returns the distance between the token ids that are used.
int64_t step_of_tokens(const Model& model) {
  for (const State& state : model.states())
    if (state.name.ends_with("embed_tokens.weight") || state.name.ends_with("wte.weight"))
      return std::max<int64_t>(1, state.type.shape[0].value() / 61);
  return 1;
}

// Returns the logits of a text that is read in one run, and then token by token.
std::vector<Tensor> logits_of(const std::shared_ptr<const Model>& model, const SessionOptions& options) {
  Session session(model, options);
  const auto tokens = [](std::vector<int64_t> ids) {
    const auto count = static_cast<int64_t>(ids.size());
    return Tensor::of<int64_t>({1, count}, std::move(ids));
  };
  const auto at = [](int64_t position) { return Tensor::of<int64_t>({1}, {position}); };
  std::vector<Tensor> logits = {
      session.run("prefill", {{"tokens", tokens({5, 1, 7, 2, 9})}, {"position", at(0)}, {"length", at(5)}})
          .at("logits")};
  for (int64_t i = 5; i < 10; ++i)
    logits.push_back(
        session.run("decode", {{"tokens", tokens({i * 3 % 61})}, {"position", at(i)}}).at("logits"));
  return logits;
}

}  // namespace

std::shared_ptr<Model> small_model(const std::string& name, int64_t vocabulary, bool is_tied) {
  models::Settings settings = tiny(name, vocabulary);
  if (!is_tied) settings["tie_word_embeddings"] = "false";
  return models::make_model(name, settings, 5);
}

std::shared_ptr<const Model> training(const std::string& name, const std::string& options, int64_t vocabulary,
                                      bool is_tied) {
  const std::shared_ptr<Model> model = small_model(name, vocabulary, is_tied);
  passes::add_training(*model, passes::parse_train_options(options));
  return model;
}

Numbers::Numbers(const Graph& graph, int64_t batch)
    : graph_(graph),
      batch_(batch),
      micro_batch_(batch / graph.type(graph.inputs()[0]).shape[0].evaluate({{"batch", 1}})) {}

NamedTensors Numbers::batch(int64_t position) {
  NamedTensors tensors;
  const int64_t apart = step_of_tokens(graph_.model());
  for (const ValueId id : graph_.inputs()) {
    const std::string& name = graph_.value(id).name;
    TensorType type = graph_.type(id);
    for (int i = 0; i < type.shape.rank(); ++i)
      type.shape[i] = Dim(type.shape[i].evaluate({{"batch", micro_batch_}, {"seq", 12}}));
    std::vector<int64_t> indices;
    std::vector<float> numbers;
    for (int64_t i = 0; i < type.numel(); ++i) {
      const int64_t number = (i * 7919 + position * 104729) % 251;
      indices.push_back(number % (name == "target" ? 2 : 61) * apart);
      numbers.push_back(static_cast<float>(number) / 64 - 2);
    }
    const bool is_index = type.dtype == DType::i64;
    tensors.emplace(
        name, Tensor::copy_of(type, is_index ? static_cast<const void*>(indices.data()) : numbers.data()));
  }
  return tensors;
}

NamedTensors FewTargets::batch(int64_t position) {
  NamedTensors batch = numbers_.batch(position);
  Tensor& of_batch = batch.at("targets");
  std::vector<int64_t> targets(of_batch.as<int64_t>().begin(), of_batch.as<int64_t>().end());
  const auto length = static_cast<size_t>(of_batch.type().shape[1].value());
  for (size_t i = 0; i < targets.size(); ++i) {
    const size_t row = i / length, column = i % length;
    const bool is_empty = position == 1 && row < 4;
    if (is_empty || column > (row * 5 + static_cast<size_t>(position)) % length) targets[i] = kIgnored;
  }
  of_batch = Tensor::copy_of(of_batch.type(), targets.data());
  return batch;
}

template <class Source>
Curve train(const std::shared_ptr<const Model>& model, SessionOptions options, int steps, int first) {
  const std::unique_ptr<BatchSource> source =
      share_of(std::make_unique<Source>(model->entry("train_step")), options.mesh, options.rank);
  options.threads = 1;
  Session session(model, options);
  Curve curve;
  for (int step = 0; step < steps; ++step) {
    const NamedTensors outputs = session.run("train_step", source->batch(first + step));
    curve.losses.push_back(outputs.at("loss").item<double>());
  }
  curve.states = session.states();
  curve.memory = Inspector(session).memory();
  return curve;
}

template <class Source>
std::vector<Curve> train_on(const std::string& mesh_text, const std::shared_ptr<const Model>& model,
                            const SessionOptions& options, int steps, int first) {
  const Mesh mesh = Mesh::parse(mesh_text);
  std::vector<Curve> curves(static_cast<size_t>(mesh.ranks()));
  run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    SessionOptions mine = options;
    mine.mesh = mesh;
    mine.rank = rank;
    mine.collectives = std::move(collectives);
    curves[static_cast<size_t>(rank)] = train<Source>(model, mine, steps, first);
  });
  return curves;
}

template Curve train<Numbers>(const std::shared_ptr<const Model>&, SessionOptions, int, int);
template Curve train<FewTargets>(const std::shared_ptr<const Model>&, SessionOptions, int, int);
template std::vector<Curve> train_on<Numbers>(const std::string&, const std::shared_ptr<const Model>&,
                                              const SessionOptions&, int, int);
template std::vector<Curve> train_on<FewTargets>(const std::string&, const std::shared_ptr<const Model>&,
                                                 const SessionOptions&, int, int);

double relative_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    norm += y[i] * y[i];
  }
  return std::sqrt(difference / std::max(norm, 1e-30));
}

void expect_close(const Curve& got, const Curve& expected, double bound) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], bound * std::abs(expected.losses[i])) << "step " << i + 1;
  for (const auto& [name, value] : expected.states) {
    if (!is_float(value.type().dtype) || name.starts_with("optimizer.")) continue;
    EXPECT_LT(relative_difference(got.states.at(name), value), bound) << name;
  }
}

void expect_same_bits(const Curve& a, const Curve& b) {
  EXPECT_EQ(a.losses, b.losses);
  for (const auto& [name, value] : a.states)
    EXPECT_EQ(std::memcmp(value.data(), b.states.at(name).data(), static_cast<size_t>(value.bytes())), 0)
        << name;
}

std::vector<Curve> expect_trains_as(const Curve& alone, const std::shared_ptr<const Model>& model,
                                    const std::string& mesh) {
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  const std::vector<Curve> ranks = train_on(mesh, model);
  expect_close(ranks[0], alone, 1e-5);
  for (const Curve& rank : ranks) expect_same_bits(rank, ranks[0]);
  expect_same_bits(train_on(mesh, model)[0], ranks[0]);
  return ranks;
}

namespace {

// Returns the loss on one rank.
double loss_after_two_steps(const std::shared_ptr<const Model>& model, const SessionOptions& options) {
  Session session(model, options);
  const NamedTensors batch = Numbers(model->entry("train_step")).batch(0);
  session.run("loss", batch);  // before any weight is written
  const auto source =
      share_of(std::make_unique<Numbers>(model->entry("train_step")), options.mesh, options.rank);
  for (int step = 0; step < 2; ++step) session.run("train_step", source->batch(step));
  return session.run("loss", batch).at("loss").item<double>();
}

}  // namespace

void expect_decodes_as_alone(const std::shared_ptr<const Model>& model,
                             const std::vector<std::string>& meshes) {
  const std::vector<Tensor> alone = logits_of(model, {.threads = 1});
  for (const std::string& text : meshes) {
    const Mesh mesh = Mesh::parse(text);
    run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
      const std::vector<Tensor> shared =
          logits_of(model, {.threads = 1, .mesh = mesh, .rank = rank, .collectives = collectives});
      for (size_t i = 0; i < alone.size(); ++i)
        EXPECT_LT(relative_difference(shared[i], alone[i]), 1e-5) << text << ", run " << i;
    });
  }
}

void expect_same_loss_however_shared(const std::shared_ptr<const Model>& model, const std::string& mesh_text,
                                     bool weight_halves) {
  const Mesh mesh = Mesh::parse(mesh_text);
  std::vector<double> losses;  // losses of all stages and ranks
  for (int stage = 0; stage <= 3; ++stage) {
    std::vector<double> of_rank(static_cast<size_t>(mesh.ranks()));
    run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
      of_rank[static_cast<size_t>(rank)] = loss_after_two_steps(model, {.threads = 1,
                                                                        .weight_halves = weight_halves,
                                                                        .mesh = mesh,
                                                                        .rank = rank,
                                                                        .collectives = collectives,
                                                                        .zero = stage});
    });
    losses.insert(losses.end(), of_rank.begin(), of_rank.end());
  }
  for (const double loss : losses) EXPECT_EQ(loss, losses[0]) << "weight halves: " << weight_halves;
}

}  // namespace genesis::testing
