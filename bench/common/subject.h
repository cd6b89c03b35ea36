// The model measured by the benches of whole steps, and what they share: training added as genesis-opt adds it, random tokens,
// and a stopwatch. The sizes are the same in torch_train_step.py.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "executor/inputs.h"
#include "schema/graph/model.h"

namespace genesis::bench {

// Returns a qwen2: hidden 512, intermediate 1408, 8 layers, 8 heads, vocabulary 8192, tied head, f32.
std::unique_ptr<Model> make_subject();

// Adds a train_step with AdamW and clipping by norm, derived from the loss.
void add_training(Model& model, const std::string& options = "adamw,lr=3e-4,clip=1.0");

// Returns i64 tokens, uniform below `vocabulary`.
Tensor random_tokens(const std::vector<int64_t>& sizes, int64_t vocabulary, uint64_t seed);

// Returns the number of elements of all 2-D parameters, which a matrix product multiplies with every token.
int64_t product_parameters(const Model& model);
int64_t parameter_bytes(const Model& model);

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace genesis::bench
