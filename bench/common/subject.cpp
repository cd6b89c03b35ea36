#include "bench/common/subject.h"

#include "models/zoo.h"
#include "passes/training/train_step.h"
#include "schema/core/philox.h"

namespace genesis::bench {

std::unique_ptr<Model> make_subject() {
  return models::make_model("qwen2", {{"hidden_size", "512"},
                                      {"intermediate_size", "1408"},
                                      {"num_hidden_layers", "8"},
                                      {"num_attention_heads", "8"},
                                      {"num_key_value_heads", "8"},
                                      {"vocab_size", "8192"}});
}

void add_training(Model& model, const std::string& options) {
  passes::add_training(model, passes::parse_train_options(options));
}

Tensor random_tokens(const std::vector<int64_t>& sizes, int64_t vocabulary, uint64_t seed) {
  const TensorType type{DType::i64, Shape::of(sizes)};
  std::vector<float> values(static_cast<size_t>(type.numel()));
  fill_uniform(values, seed, 0, 0, static_cast<float>(vocabulary));
  std::vector<int64_t> tokens;
  for (const float value : values) tokens.push_back(std::min(static_cast<int64_t>(value), vocabulary - 1));
  return Tensor::of(sizes, tokens);
}

int64_t product_parameters(const Model& model) {
  int64_t count = 0;
  for (const State& state : model.states())
    if (state.role == StateRole::kParameter && state.type.shape.rank() == 2) count += state.type.numel();
  return count;
}

int64_t parameter_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const State& state : model.states())
    if (state.role == StateRole::kParameter) bytes += state.type.bytes();
  return bytes;
}

}  // namespace genesis::bench
