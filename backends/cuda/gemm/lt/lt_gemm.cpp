// The implementation `cublas_lt` of gemm_list.cpp.
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/gemm/lt/autotune.h"
#include "backends/cuda/gemm/lt/cublas_lt.h"
#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

GemmProblem without_activation(GemmProblem problem) {
  problem.activation = Activation::kNone;
  return problem;
}

// A product by cuBLASLt. Unaligned buffers use a separate algorithm, and calls that the library refuses run by the
// plain kernel.
class LtGemm final : public Gemm {
 public:
  explicit LtGemm(const GemmProblem& problem)
      : problem_(problem),
        applied_(lt_applies(problem.activation, problem.in)),
        product_(applied_ ? problem : without_activation(problem)) {
    tuned_ = best_algorithm(problem_, product_);
    if (!tuned_ && applied_ && problem.activation != Activation::kNone) {
      applied_ = false;
      product_ = LtProduct(without_activation(problem));
      tuned_ = best_algorithm(without_activation(problem), product_);
    }
    const auto guesses = product_.guesses(1, static_cast<uint32_t>(size_of(problem.in)));
    if (!guesses.empty()) unaligned_ = guesses.front();
  }

  void run(const GemmData& data) const override {
    const auto& algorithm = starts_at(16, data) ? tuned_ : unaligned_;
    if (!algorithm || !product_.run(*algorithm, data)) return run_plain_gemm(problem_, data);
    if (!applied_) activate(data);
  }

 private:
  void activate(const GemmData& data) const {
    const auto& p = problem_;
    const auto at = [&](int64_t i) {
      return static_cast<std::byte*>(data.c) + i * p.stride_c * static_cast<int64_t>(size_of(p.out));
    };
    if (p.stride_c == p.m * p.ldc)
      return run_activation(p.activation, p.out, data.c, p.batch * p.m, p.n, p.ldc, data.stream);
    for (int64_t i = 0; i < p.batch; ++i)
      run_activation(p.activation, p.out, at(i), p.m, p.n, p.ldc, data.stream);
  }

  GemmProblem problem_;
  bool applied_;
  LtProduct product_;
  std::optional<LtAlgorithm> tuned_, unaligned_;
};

}  // namespace

// Layers have equal products, and describing one to the library takes a while.
std::shared_ptr<const Gemm> create_lt(const GemmProblem& problem) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, std::weak_ptr<const Gemm>> made;
  const std::pair key{current_device(), tuning_key(problem)};
  {
    const std::lock_guard lock(mutex);
    if (auto there = made[key].lock()) return there;
  }
  auto fresh = std::make_shared<const LtGemm>(problem);
  const std::lock_guard lock(mutex);
  made[key] = fresh;
  return fresh;
}

std::string why_no_lt_here() {
  return cublas_lt().available() ? "" : "this machine has no cuBLASLt that can be opened";
}

}  // namespace genesis::cuda
