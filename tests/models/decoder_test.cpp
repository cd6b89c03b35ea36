// Tests KV caches of several rows: each text in a ragged batch gives the same results as alone, a prompt in chunks
// the same as a whole prompt, and a decoded token the same as at the end of a prompt.
#include "models/decoder.h"

#include <gtest/gtest.h>

#include "executor/session.h"
#include "models/generation/sampling_entries.h"
#include "models/zoo.h"
#include "passes/lora/lora.h"
#include "passes/precision/cast_precision.h"
#include "passes/precision/quantize.h"
#include "schema/file/attached_files.h"
#include "schema/file/reader.h"
#include "tests/op_harness.h"

namespace genesis::models {
namespace {

using testing::expect_error;
using Tokens = std::vector<int64_t>;

constexpr int64_t kPositions = 24, kVocabulary = 61;

struct Setting {
  std::string name, model;
  Settings more = {};
};

std::ostream& operator<<(std::ostream& out, const Setting& s) { return out << s.name; }

std::unique_ptr<Model> make(const Setting& s) {
  Settings settings = {{"vocab_size", std::to_string(kVocabulary)}, {"initializer_range", "0.3"}};
  const Settings sizes = s.model == "gpt2"
                             ? Settings{{"n_embd", "32"},
                                        {"n_layer", "2"},
                                        {"n_head", "2"},
                                        {"n_positions", std::to_string(kPositions)}}
                             : Settings{{"hidden_size", "32"},
                                        {"intermediate_size", "48"},
                                        {"num_hidden_layers", "2"},
                                        {"num_attention_heads", "4"},
                                        {"num_key_value_heads", "2"},
                                        {"head_dim", "16"},
                                        {"max_position_embeddings", std::to_string(kPositions)}};
  settings.insert(sizes.begin(), sizes.end());
  for (const auto& [key, value] : s.more) settings[key] = value;
  return make_model(s.model, settings, 3);
}

// Returns rows of one width. The padding must not be seen.
Tensor padded(const std::vector<Tokens>& rows) {
  size_t width = 1;
  for (const Tokens& row : rows) width = std::max(width, row.size());
  Tokens all;
  for (size_t r = 0; r < rows.size(); ++r)
    for (size_t i = 0; i < width; ++i)
      all.push_back(i < rows[r].size() ? rows[r][i] : static_cast<int64_t>(17 * r + i) % kVocabulary);
  return Tensor::of<int64_t>({std::ssize(rows), static_cast<int64_t>(width)}, all);
}

// A session over a cache, with the position of each of its texts.
class Texts {
 public:
  Texts(const Model& model, int64_t rows)
      : session_(std::shared_ptr<const Model>(with_cache(model, rows, kPositions)), {.threads = 2}),
        at_(static_cast<size_t>(rows), 0) {}

  // Returns the logits [rows][vocabulary] after these tokens.
  std::vector<std::vector<float>> prefill(const std::vector<Tokens>& rows) {
    NamedTensors inputs = {{"tokens", padded(rows)}, {"position", positions()}};
    Tokens lengths;
    for (const Tokens& row : rows) lengths.push_back(std::ssize(row));
    inputs["length"] = Tensor::of<int64_t>({std::ssize(rows)}, lengths);
    Tokens texts = lengths;
    for (size_t r = 0; r < texts.size(); ++r) texts[r] = std::max(texts[r] + at_[r], whole_);
    add_text_length(inputs, Tensor::of<int64_t>({std::ssize(rows)}, texts));
    const auto logits = run("prefill", inputs);
    for (size_t r = 0; r < rows.size(); ++r) at_[r] += lengths[r];
    return logits;
  }
  // Returns the logits of one row alone, with a padding token after it.
  std::vector<std::vector<float>> prefill_row(int64_t row, const Tokens& text) {
    Tokens tokens = text;
    tokens.push_back(17);
    const auto r = static_cast<size_t>(row);
    const int64_t at = r < at_.size() ? at_[r] : 0;
    NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({1, std::ssize(tokens)}, tokens)},
                           {"position", Tensor::of<int64_t>({1}, {at})},
                           {"length", Tensor::of<int64_t>({1}, {std::ssize(text)})},
                           {"row", Tensor::scalar(row)}};
    add_text_length(inputs, Tensor::of<int64_t>({1}, {at + std::ssize(text)}));
    const auto logits = run("prefill_row", inputs);
    at_[r] += std::ssize(text);
    return logits;
  }
  std::vector<std::vector<float>> decode(const Tokens& tokens) {
    const auto logits = run("decode", {{"tokens", Tensor::of<int64_t>({std::ssize(tokens), 1}, tokens)},
                                       {"position", positions()}});
    for (int64_t& at : at_) ++at;
    return logits;
  }
  void stand_at(const Tokens& at) { at_ = at; }
  // From now on, the tokens read are chunks of texts of this length.
  void read_texts_of(int64_t length) { whole_ = length; }

 private:
  void add_text_length(NamedTensors& inputs, Tensor length) const {
    if (text::takes_text_length(session_.model())) inputs.emplace("text_length", std::move(length));
  }
  Tensor positions() const { return Tensor::of<int64_t>({std::ssize(at_)}, at_); }
  std::vector<std::vector<float>> run(const char* entry, const NamedTensors& inputs) {
    const Tensor logits = session_.run(entry, inputs).at("logits");
    const auto all = logits.as<float>();
    std::vector<std::vector<float>> rows;
    for (size_t at = 0; at < all.size(); at += kVocabulary)
      rows.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                        all.begin() + static_cast<std::ptrdiff_t>(at) + kVocabulary);
    return rows;
  }

  Session session_;
  Tokens at_;
  int64_t whole_ = 0;
};

// Products with another number of rows add in another order.
void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << "logit " << i;
}

int64_t best(const std::vector<float>& logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

class Decoders : public ::testing::TestWithParam<Setting> {
 protected:
  const std::unique_ptr<Model> model_ = make(GetParam());
  const Tokens text_ = {5, 1, 36, 0, 7, 60, 22, 9, 41, 3, 3, 17};
};

TEST_P(Decoders, ARowOfARaggedBatchIsItselfAlone) {
  const std::vector<Tokens> prompts = {{5, 1, 36, 0, 7}, {60}, {22, 9, 41, 3, 3, 17, 8, 30, 2}};
  Texts together(*model_, 3);
  std::vector<std::vector<float>> logits = together.prefill(prompts);
  std::vector<std::unique_ptr<Texts>> alone;
  std::vector<std::vector<float>> own;
  for (const Tokens& prompt : prompts) {
    alone.push_back(std::make_unique<Texts>(*model_, 1));
    own.push_back(alone.back()->prefill({prompt})[0]);
  }
  for (int step = 0; step < 6; ++step) {
    Tokens tokens;
    for (size_t r = 0; r < prompts.size(); ++r) {
      SCOPED_TRACE(fmt::format("step {} row {}", step, r));
      expect_near(logits[r], own[r]);
      EXPECT_EQ(best(logits[r]), best(own[r]));
      tokens.push_back(best(own[r]));
      own[r] = alone[r]->decode({tokens.back()})[0];
    }
    logits = together.decode(tokens);
  }
}

// The neighbors of a row do not change a bit of it.
TEST_P(Decoders, ARowDoesNotKnowItsNeighbors) {
  Texts one(*model_, 3), other(*model_, 3);
  const auto a = one.prefill({text_, {4, 4, 4, 9, 9}, {1}});
  const auto b = other.prefill({text_, {60, 2, 1}, {8, 8, 8, 8, 8, 8, 8}});
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(one.decode({7, 8, 9})[0], other.decode({7, 30, 0})[0]);
}

TEST_P(Decoders, PiecesAreTheWhole) {
  for (int64_t rows : {1, 2}) {
    Texts whole(*model_, rows), pieces(*model_, rows), decoded(*model_, rows);
    pieces.read_texts_of(std::ssize(text_));
    const auto cut = [&](size_t first, size_t end) {
      return std::vector<Tokens>(static_cast<size_t>(rows),
                                 Tokens(text_.begin() + static_cast<std::ptrdiff_t>(first),
                                        text_.begin() + static_cast<std::ptrdiff_t>(end)));
    };
    const auto expected = whole.prefill(cut(0, text_.size()));
    pieces.prefill(cut(0, 5));
    pieces.prefill(cut(5, 6));
    expect_near(pieces.prefill(cut(6, text_.size()))[0], expected[0]);
    // Tokens outside a prompt rotate keys by the length at that time.
    if (GetParam().name == "dynamic") continue;
    decoded.prefill(cut(0, 3));
    std::vector<std::vector<float>> last;
    for (size_t i = 3; i < text_.size(); ++i)
      last = decoded.decode(Tokens(static_cast<size_t>(rows), text_[i]));
    expect_near(last.back(), expected.back());
  }
}

// A row read alone gives the same as a row read with all others, which stay unchanged.
TEST_P(Decoders, ARowCanBeReadByItself) {
  Texts texts(*model_, 3), expected(*model_, 3);
  const std::vector<Tokens> prompts = {{5, 1, 36}, {60, 4}, {22, 9, 41, 3}};
  texts.prefill({prompts[0], {}, prompts[2]});
  texts.prefill_row(1, prompts[1]);
  expected.prefill(prompts);
  const auto got = texts.decode({7, 8, 9}), wanted = expected.decode({7, 8, 9});
  for (size_t r = 0; r < 3; ++r) expect_near(got[r], wanted[r]);
  const Tokens more = {9, 9, 9};
  expect_near(texts.prefill_row(2, more)[0], expected.prefill({{}, {}, more})[2]);
  texts.stand_at({0, kPositions - 2, 0});
  expect_error([&] { texts.prefill_row(1, more); }, {"out of range"});
}

// A row without tokens in a chunk waits, even at the end of its cache.
TEST_P(Decoders, RowsWithoutTokensStayAsTheyAre) {
  Texts texts(*model_, 2), alone(*model_, 1);
  Tokens full = text_;
  full.insert(full.end(), text_.begin(), text_.end());
  ASSERT_EQ(std::ssize(full), kPositions);
  texts.prefill({{full.begin(), full.end() - 1}, {3}});
  texts.prefill({{}, text_});
  texts.prefill({{}, {9, 9}});
  alone.prefill({{full.begin(), full.end() - 1}});
  expect_near(texts.prefill({{full.back()}, {}})[0], alone.decode({full.back()})[0]);
  texts.prefill({{}, {1, 2, 3}});  // the first row is full
}

TEST_P(Decoders, MoreThanTheCacheHoldsIsAnError) {
  Texts texts(*model_, 2);
  texts.stand_at({0, kPositions - 3});
  texts.prefill({text_, {1, 2, 3}});
  texts.stand_at({0, kPositions - 2});
  expect_error([&] { texts.prefill({text_, {1, 2, 3}}); }, {"out of range"});
  texts.stand_at({0, kPositions});
  expect_error([&] { texts.decode({1, 2}); }, {std::to_string(kPositions), "out of range"});
}

// A longer text gets a cache of the next power of two of positions, but no more than the model can read.
TEST_P(Decoders, GrowWithTheText) {
  const std::shared_ptr<const Model> small = with_cache(*model_, 2, 5);
  const auto positions = [](const std::shared_ptr<const Model>& model) {
    const auto cache = std::ranges::find(model->states(), StateRole::kCache, &State::role);
    EXPECT_EQ(cache->type.shape[0], Dim(2));
    return cache->type.shape[1].value();
  };
  EXPECT_EQ(with_room(small, 5), small);
  EXPECT_EQ(positions(with_room(small, 6)), 8);
  EXPECT_EQ(longest_text(*small), kPositions);
  EXPECT_EQ(positions(with_room(small, kPositions - 1)), kPositions);
  const auto all = with_room(small, 1 << 20);
  EXPECT_EQ(positions(all), kPositions);
  EXPECT_EQ(with_room(all, 1 << 20), all);
}

TEST_P(Decoders, ShareTheirWeights) {
  Model model = *model_;
  attach_file(model, "tokenizer.json", "{}");
  const auto other = with_cache(model, 4, 7);
  EXPECT_EQ(attached_file(*other, "tokenizer.json"), "{}")
      << "what travels with a model does so with another cache";
  EXPECT_EQ(other->metadata.at("architecture"), model_->metadata.at("architecture"));
  int caches = 0;
  for (const State& state : other->states()) {
    if (state.role == StateRole::kCache) {
      EXPECT_EQ(state.type.shape[0], Dim(4));
      EXPECT_EQ(state.type.shape[1], Dim(7));
      ++caches;
      continue;
    }
    EXPECT_EQ(state.initial.data(), model_->state(model_->find_state(state.name)).initial.data())
        << state.name;
  }
  EXPECT_EQ(caches, 4);
  // Converting back restores the original.
  const auto back = with_cache(*other, 1, kPositions);
  EXPECT_EQ(back->entries().size(), model_->entries().size());
  EXPECT_EQ(back->state(back->find_state(back->states().back().name)).type, model_->states().back().type);
}

// Quantized weights stay quantized.
TEST_P(Decoders, KeepTheirQuantizedWeights) {
  Model quantized = *model_;
  passes::quantize(quantized, {});
  const auto other = with_cache(quantized, 2, kPositions);
  int encoded = 0;
  for (const State& state : other->states()) {
    const State& own = quantized.state(quantized.find_state(state.name));
    EXPECT_EQ(state.encoded.format, own.encoded.format) << state.name;
    if (own.encoded) {
      EXPECT_EQ(state.encoded.parts[0].data(), own.encoded.parts[0].data()) << state.name;
      ++encoded;
    }
  }
  EXPECT_GT(encoded, 0);
  Texts together(*other, 2), alone(quantized, 1);
  expect_near(together.prefill({text_, {7, 7}})[0], alone.prefill({text_})[0]);
}

// The model keeps the dtype it was cast to.
TEST_P(Decoders, KeepTheirPrecision) {
  const std::unique_ptr<Model> low = passes::cast_precision(*model_, DType::bf16);
  const auto other = with_cache(*low, 2, kPositions);
  for (const State& state : other->states()) {
    const State& own = low->state(low->find_state(state.name));
    EXPECT_EQ(state.type.dtype, own.type.dtype) << state.name;
    if (state.role != StateRole::kCache) {
      EXPECT_EQ(state.initial.data(), own.initial.data()) << state.name;
    }
  }
  Texts together(*low, 2), alone(*low, 1);
  const auto got = together.prefill({text_, {7, 7}})[0], expected = alone.prefill({text_})[0];
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 0.05 * (1 + std::abs(expected[i])));
}

// Adapters are kept with the weights, also if the weights have low precision.
TEST_P(Decoders, KeepTheirAdapters) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::unique_ptr<Model> model =
        dtype == DType::f32 ? std::make_unique<Model>(*model_) : passes::cast_precision(*model_, dtype);
    passes::add_lora(*model, {.rank = 2, .dropout = 0.5});
    for (const std::string& layer : passes::lora_layers(*model)) {
      const int32_t b = model->find_state(layer + ".lora_B.weight");
      const TensorType type = model->state(b).type;
      model->set_initial(b, Tensor::of<float>({type.shape[0].value(), 2},
                                              std::vector<float>(static_cast<size_t>(type.numel()), 0.3f)));
    }
    const auto other = with_cache(*model, 2, kPositions);
    EXPECT_EQ(passes::lora_layers(*other), passes::lora_layers(*model));
    for (const State& state : other->states())
      if (const State& own = model->state(model->find_state(state.name));
          state.role == StateRole::kParameter) {
        EXPECT_EQ(state.initial.data(), own.initial.data()) << state.name;
        EXPECT_EQ(state.trainable, own.trainable) << state.name;
      }
    Texts together(*other, 2);
    Session alone(std::shared_ptr<const Model>(passes::merge_lora(*model)), {.threads = 2});
    const auto all = alone.run("forward", {{"tokens", padded({text_})}}).at("logits").to_doubles();
    const auto got = together.prefill({text_, {7, 7}})[0];
    const double tolerance = dtype == DType::f32 ? 1e-4 : 0.1;
    for (size_t i = 0; i < got.size(); ++i) {
      const double expected = all[all.size() - kVocabulary + i];
      EXPECT_NEAR(got[i], expected, tolerance * (1 + std::abs(expected)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, Decoders,
    ::testing::Values(
        Setting{"gpt2", "gpt2"}, Setting{"qwen2", "qwen2"}, Setting{"qwen3", "qwen3"},
        Setting{"llama", "llama"},
        Setting{"sliding",
                "qwen2",
                {{"sliding_window", "4"}, {"layer_types", "full_attention,sliding_attention"}}},
        Setting{"yarn",
                "llama",
                {{"rope_scaling", "yarn"},
                 {"rope_factor", "4"},
                 {"rope_original_positions", "8"},
                 {"rope_attention_factor", "1.2"}}},
        Setting{"dynamic",
                "llama",
                {{"rope_scaling", "dynamic"}, {"rope_factor", "2"}, {"rope_original_positions", "6"}}}),
    [](const auto& info) { return info.param.name; });

TEST(WithCache, WhatHasNoneIsAnError) {
  expect_error([] { with_cache(*make_model("mlp", {}), 2, 8); }, {"no entry point 'decode'"});
  const auto model = make({"qwen2", "qwen2"});
  expect_error([&] { with_cache(*model, 0, 8); }, {"0 rows"});
  expect_error(
      [&] {
        with_cache(*make({"gpt2", "gpt2"}), 2, kPositions + 1);
      },
      {"cache_positions", "n_positions 24"});
}

// Entry points of older versions are made anew, because they read one row: that takes a model of the zoo.
TEST(WithCache, OfAnOlderFileNeedsTheZooForMoreRows) {
  const auto model =
      load_model(std::filesystem::path(GENESIS_SOURCE_ROOT) / "tests/models/golden/one_row.genesis");
  EXPECT_EQ(with_cache(*model, 2, 8)->entry("decode").inputs().size(), 2u);
  Model other = *model;
  other.add_state({.name = "lora.a", .type = {DType::f32, {2}}});
  expect_error([&] { with_cache(other, 2, 8); }, {"'lora.a'"});
  other = *model;
  other.metadata.erase("config");
  expect_error([&] { with_cache(other, 2, 8); }, {"not from the zoo"});
  other.metadata["config"] = "[";
  expect_error([&] { with_cache(other, 2, 8); }, {"no JSON object"});
}

TEST(Qwen, WindowsThatCannotBeAreErrors) {
  const auto refused = [](const Settings& more, const std::vector<std::string>& parts) {
    expect_error([&] { make({"qwen2", "qwen2", more}); }, parts);
  };
  refused({{"sliding_window", "-1"}}, {"sliding_window is -1"});
  refused({{"layer_types", "full_attention"}}, {"1 entries for 2 layers"});
  refused({{"layer_types", "full_attention,chunked"}}, {"'chunked'"});
  refused({{"layer_types", "full_attention,sliding_attention"}}, {"sliding_window is 0"});
  refused({{"layer_types", "[1, 2]"}}, {"layer_types", "names"});
  refused({{"batch", "0"}}, {"batch is 0"});
  refused({{"rope_scaling", "ntk"}}, {"rope_scaling is 'ntk'", "yarn"});
  refused({{"rope_scaling", "llama3"}}, {"rope_original_positions is 0", "llama3"});
  refused({{"rope_scaling", "linear"}, {"rope_factor", "0"}}, {"rope_factor is 0"});
}

}  // namespace
}  // namespace genesis::models
