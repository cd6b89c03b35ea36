// Tests rows that contain several texts: each token sees only its own text, at its own position, so loss and
// gradients equal those of the texts in separate rows.
#include <gtest/gtest.h>

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/training/train_step.h"
#include "tests/models/small_families.h"

namespace genesis {
namespace {

using Row = std::vector<int64_t>;

struct Batch {
  std::vector<Row> tokens, targets, positions, segments;

  NamedTensors inputs(bool packed) const {
    NamedTensors inputs = {{"tokens", tensor(tokens)}, {"targets", tensor(targets)}};
    if (packed) inputs.insert({{"positions", tensor(positions)}, {"segments", tensor(segments)}});
    return inputs;
  }
  static Tensor tensor(const std::vector<Row>& rows) {
    Row all;
    for (const Row& row : rows) all.insert(all.end(), row.begin(), row.end());
    return Tensor::of<int64_t>({std::ssize(rows), std::ssize(rows[0])}, all);
  }
};

constexpr int64_t kSeq = 24;

// Adds texts of these lengths. A text's targets are its next tokens; its last token has no target.
void put(Batch& batch, size_t row, const Row& lengths) {
  for (size_t text = 0; text < lengths.size(); ++text)
    for (int64_t i = 0; i < lengths[text]; ++i) {
      const auto token = [&](int64_t at) { return (at * at * 31 + lengths[text] * 7 + at) % 200; };
      batch.tokens[row].push_back(token(i));
      batch.targets[row].push_back(i + 1 < lengths[text] ? token(i + 1) : -100);
      batch.positions[row].push_back(i);
      batch.segments[row].push_back(static_cast<int64_t>(text));
    }
  const auto fill = [](Row& values, int64_t value) { values.resize(kSeq, value); };
  fill(batch.tokens[row], 0), fill(batch.targets[row], -100), fill(batch.positions[row], 0),
      fill(batch.segments[row], -1);
}

Batch batch_of(const std::vector<Row>& rows) {
  Batch batch;
  for (auto* part : {&batch.tokens, &batch.targets, &batch.positions, &batch.segments})
    part->resize(rows.size());
  for (size_t row = 0; row < rows.size(); ++row) put(batch, row, rows[row]);
  return batch;
}

models::Settings tiny(const std::string& model) {
  if (model == "gpt2") return {{"n_embd", "32"}, {"n_layer", "2"}, {"n_head", "2"}, {"n_positions", "32"}};
  models::Settings settings = testing::small_settings(model);
  settings["vocab_size"] = "256";
  return settings;
}

std::vector<std::string> names_of_families() {
  std::vector<std::string> names = testing::decoder_families();
  names.emplace_back("gpt2");
  return names;
}

class Packed : public ::testing::TestWithParam<std::string> {
 protected:
  // Returns the loss, and all parameters after a step of SGD.
  std::pair<double, NamedTensors> step(const std::string& entry, const NamedTensors& inputs) const {
    std::shared_ptr<Model> model = models::make_model(GetParam(), tiny(GetParam()), 3);
    passes::TrainOptions options = passes::parse_train_options("sgd,lr=0.5");
    options.entry = entry;
    passes::add_training(*model, options);
    Session session(model, {.threads = 2});
    const double loss = session.run("train_step", inputs).at("loss").item<float>();
    return {loss, session.states()};
  }
};

TEST_P(Packed, TextsOfARowAreApart) {
  const auto [packed_loss, packed] = step("loss_packed", batch_of({{9, 5, 10}, {3, 17}}).inputs(true));
  const auto [loss, alone] = step("loss", batch_of({{9}, {5}, {10}, {3}, {17}}).inputs(false));
  EXPECT_NEAR(packed_loss, loss, 1e-5 * loss);
  for (const auto& [name, value] : alone) {
    const auto expected = value.to_doubles(), given = packed.at(name).to_doubles();
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(given[i], expected[i], 2e-6) << name << "[" << i << "]";
  }
}

TEST_P(Packed, OneTextARowIsAnOrdinaryRow) {
  const Batch batch = batch_of({{kSeq}, {kSeq}});
  EXPECT_NEAR(step("loss_packed", batch.inputs(true)).first, step("loss", batch.inputs(false)).first, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Packed, ::testing::ValuesIn(names_of_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace genesis
