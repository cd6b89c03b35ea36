// Times reductions and data moves on 64 MB, as shares of the bandwidth measured in the same run. `bench_reduce [--json FILE]
// [--rounds N]`.
#include <vector>

#include "bench/cpu/kernel_case.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::bench {
namespace {

constexpr int64_t kSide = 4096;  // rows of 16 KB in f32: 64 MB

void add_reductions(std::vector<Case>& cases, DType dtype) {
  const TensorType x{dtype, {kSide * 4 / static_cast<int64_t>(size_of(dtype)), kSide}};
  const auto add = [&](const char* what, const char* op, Attributes attributes) {
    cases.emplace_back(what, op, std::move(attributes), std::vector<TensorType>{x}, Limit::kRead);
  };
  add("row sum", "sum", to_attributes(ops::Sum{{{1}}}));
  add("column sum", "sum", to_attributes(ops::Sum{{{0}}}));
  add("full sum", "sum", to_attributes(ops::Sum{{{0, 1}}}));
  add("row max", "max", to_attributes(ops::Max{{{1}}}));
  add("column max", "max", to_attributes(ops::Max{{{0}}}));
  add("row var", "var", to_attributes(ops::Var{{{{1}}, 1}}));
  add("row logsumexp", "logsumexp", to_attributes(ops::LogSumExp{{{1}}}));
  add("row argmax", "argmax", to_attributes(ops::ArgMax{{1}}));
}

void add_moves(std::vector<Case>& cases) {
  const TensorType x{DType::f32, {kSide, kSide}}, half{DType::f32, {kSide, kSide / 2}};
  const TensorType heads{DType::f32, {8, 512, 32, 128}}, rng{DType::i64, {2}};
  const auto add = [&](const char* what, const char* op, Attributes attributes,
                       std::vector<TensorType> inputs) {
    cases.emplace_back(what, op, std::move(attributes), std::move(inputs), Limit::kCopy);
  };
  add("transpose", "permute", to_attributes(ops::Permute{{1, 0}}), {x});
  add("BTHD to BHTD", "permute", to_attributes(ops::Permute{{0, 2, 1, 3}}), {heads});
  add("BTHD to BTDH", "permute", to_attributes(ops::Permute{{0, 1, 3, 2}}), {heads});
  add("concat columns", "concat", to_attributes(ops::Concat{1}), {half, half});
  add("concat rows", "concat", to_attributes(ops::Concat{0}), {half, half});
  add("flip rows", "flip", to_attributes(ops::Flip{{1}}), {x});
  add("dropout", "dropout", to_attributes(ops::Dropout{0.1, 1}), {rng, x});
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_reductions(cases, DType::f32);
  add_reductions(cases, DType::bf16);
  add_moves(cases);
  return cases;
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  return genesis::bench::run_cases(argc, argv,
                                   "Reductions and moves as shares of the bandwidth of the same run.",
                                   genesis::bench::all_cases());
}
