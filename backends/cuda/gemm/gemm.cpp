#include "backends/cuda/gemm/gemm.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backends/cuda/gemm/lt/autotune.h"
#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

bool starts_at(uintptr_t alignment, const GemmData& d) {
  return ((reinterpret_cast<uintptr_t>(d.a) | reinterpret_cast<uintptr_t>(d.b) |
           reinterpret_cast<uintptr_t>(d.c) | reinterpret_cast<uintptr_t>(d.bias) |
           reinterpret_cast<uintptr_t>(d.addend)) %
          alignment) == 0;
}

class PlainGemm final : public Gemm {
 public:
  explicit PlainGemm(const GemmProblem& problem) : problem_(problem) {}
  void run(const GemmData& data) const override { run_plain_gemm(problem_, data); }

 private:
  GemmProblem problem_;
};

GemmProblem without_activation(GemmProblem problem) {
  problem.activation = Activation::kNone;
  return problem;
}

// By cuBLASLt. Buffers that start at odd addresses take an algorithm of their own, and whatever the library
// refuses falls to the plain kernel.
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

// A few rows against a weight, when the buffers allow it.
class GemvGemm final : public Gemm {
 public:
  explicit GemvGemm(const GemmProblem& problem) : problem_(problem) {}
  void run(const GemmData& data) const override {
    starts_at(16, data) ? run_gemv(problem_, data) : run_plain_gemm(problem_, data);
  }

 private:
  GemmProblem problem_;
};

// Layers have the same products, and describing one to the library takes a while.
std::shared_ptr<const Gemm> shared_lt_gemm(const GemmProblem& problem) {
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

bool takes_gemv(const GemmProblem& problem, const KernelNames* disabled) {
  return is_allowed(disabled, "gemm", "gemv") && gemv_takes(problem);
}

bool takes_lt(const GemmProblem& problem, const KernelNames* disabled) {
  return is_allowed(disabled, "gemm", "cublas_lt") && lt_takes(problem);
}

}  // namespace

std::shared_ptr<const Gemm> Gemm::create_plain(const GemmProblem& problem) {
  return std::make_shared<PlainGemm>(problem);
}

std::shared_ptr<const Gemm> Gemm::create(const GemmProblem& problem, const KernelNames* disabled) {
  if (problem.batch * problem.m * problem.n == 0) return create_plain(problem);
  if (takes_gemv(problem, disabled)) return std::make_shared<GemvGemm>(problem);
  if (takes_lt(problem, disabled) && cublas_lt().available()) return shared_lt_gemm(problem);
  return create_plain(problem);
}

int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled) {
  return takes_lt(problem, disabled) && !takes_gemv(problem, disabled) ? kLtWorkspaceBytes : 0;
}

}  // namespace genesis::cuda
