// A language model small enough for a test, ready to train and to generate.
#pragma once

#include "executor/session.h"
#include "models/zoo.h"
#include "passes/pipelines.h"
#include "passes/precision/cast_precision.h"
#include "passes/training/train_step.h"

namespace genesis::testing {

inline constexpr int64_t kTinyBatch = 4, kTinySeq = 32, kTinyVocabulary = 64;

// `train`: options as on the command line; empty for inference only.
inline std::shared_ptr<Model> tiny_qwen(const std::string& train) {
  const std::shared_ptr<Model> model = models::make_model("qwen2", {{"hidden_size", "64"},
                                                                    {"intermediate_size", "128"},
                                                                    {"num_hidden_layers", "2"},
                                                                    {"num_attention_heads", "4"},
                                                                    {"num_key_value_heads", "2"},
                                                                    {"vocab_size", "64"}});
  if (train.empty()) return model;
  const passes::TrainOptions options = passes::parse_train_options(train);
  model->replace_entry(
      passes::run_passes(model->entry(options.entry), passes::preparation_pipeline(), {}, {}));
  passes::add_train_step(*model, options);
  return model;
}

// Returns a model with 500 tokens of sizes that a megakernel takes: it runs one row of bf16.
inline std::unique_ptr<Model> qwen_of_three_layers(DType dtype, int64_t positions,
                                                   const char* initializer_range,
                                                   const models::Settings& more = {}) {
  models::Settings settings = {{"hidden_size", "384"},
                               {"intermediate_size", "992"},
                               {"num_hidden_layers", "3"},
                               {"num_attention_heads", "6"},
                               {"num_key_value_heads", "2"},
                               {"head_dim", "64"},
                               {"max_position_embeddings", std::to_string(positions)},
                               {"vocab_size", "500"},
                               {"initializer_range", initializer_range}};
  settings.insert(more.begin(), more.end());
  std::unique_ptr<Model> made = models::make_model("qwen2", settings, 7);
  return dtype == DType::f32 ? std::move(made) : passes::cast_precision(*made, dtype);
}

// Returns a text with a pattern to learn.
inline NamedTensors tiny_batch(int64_t number) {
  std::vector<int64_t> tokens(static_cast<size_t>(kTinyBatch * kTinySeq));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int64_t>((i * 7 + static_cast<size_t>(number) * 13) % 61);
  const Tensor text = Tensor::of<int64_t>({kTinyBatch, kTinySeq}, tokens);
  return {{"tokens", text}, {"targets", text}};
}

}  // namespace genesis::testing
