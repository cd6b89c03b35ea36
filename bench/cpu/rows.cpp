// Times row kernels and optimizer updates on tensors larger than the caches, as shares of the bandwidth measured in the same run.
// Counts only the bytes that must move: each input read once, each result written once. `bench_rows [--json FILE] [--rounds N]`.
#include <cstdint>
#include <string>
#include <vector>

#include "bench/cpu/kernel_case.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/nn/softmax.h"

namespace genesis::bench {
namespace {

void add_rows(std::vector<Case>& cases, DType dtype, int64_t rows, int64_t n) {
  const TensorType x{dtype, {rows, n}}, w{DType::f32, {n}};
  const auto add = [&](const char* op, Attributes attributes, std::vector<TensorType> inputs) {
    cases.emplace_back(op, op, std::move(attributes), std::move(inputs), Limit::kCopy);
  };
  add("softmax", to_attributes(ops::Softmax{1}), {x});
  add("softmax_grad", to_attributes(ops::SoftmaxGrad{.axis = 1}), {x, x});
  add("log_softmax", to_attributes(ops::LogSoftmax{1}), {x});
  add("layer_norm", to_attributes(ops::LayerNorm{.has_weight = true, .has_bias = true}), {x, w, w});
  add("layer_norm_grad",
      to_attributes(ops::LayerNormGrad{.has_weight = true, .want_weight = true, .want_bias = true}),
      {x, x, w});
  add("rms_norm", to_attributes(ops::RmsNorm{.has_weight = true}), {x, w});
  add("rms_norm_grad", to_attributes(ops::RmsNormGrad{.has_weight = true, .want_weight = true}), {x, x, w});
}

void add_cross_entropy(std::vector<Case>& cases, DType dtype, int64_t rows, int64_t classes) {
  const TensorType logits{dtype, {rows, classes}}, target{DType::i64, {rows}}, lse{DType::f32, {rows}};
  ops::CrossEntropy forward;
  forward.with_lse = true;
  cases.emplace_back("cross_entropy", "cross_entropy", to_attributes(forward),
                     std::vector<TensorType>{logits, target}, Limit::kRead);
  cases.emplace_back("cross_entropy_grad", "cross_entropy_grad", to_attributes(ops::CrossEntropyGrad{}),
                     std::vector<TensorType>{logits, target, lse, {DType::f32, {}}}, Limit::kCopy);
}

void add_optimizers(std::vector<Case>& cases, DType dtype, int64_t n) {
  const TensorType p{dtype, {n}}, m{DType::f32, {n}}, lr{DType::f32, {}}, step{DType::i64, {}};
  const std::vector<TensorType> adam = {lr, step, p, p, m, m}, lion = {p, p, m, lr};
  cases.emplace_back("adamw", "adam_update", to_attributes(ops::AdamUpdate{.weight_decays = {0.1}}), adam,
                     Limit::kCopy);
  cases.emplace_back("lion", "lion_update", to_attributes(ops::LionUpdate{}), lion, Limit::kCopy);
  cases.emplace_back("sum_squares", "sum_squares", Attributes{}, std::vector<TensorType>{p}, Limit::kRead);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (int64_t n : {1024, 4096}) add_rows(cases, dtype, (int64_t{1} << 25) / n, n);
    add_cross_entropy(cases, dtype, 4096, 8192);
    add_cross_entropy(cases, dtype, 256, 151936);
    add_optimizers(cases, dtype, int64_t{1} << 24);
  }
  return cases;
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  return genesis::bench::run_cases(argc, argv,
                                   "Row kernels as shares of the bandwidth measured in the same run.",
                                   genesis::bench::all_cases());
}
