// The ordered list of matrix products on a GPU, and the choice among them. Used through Gemm::create.
#include "backends/cuda/gemm/gemm.h"

#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/gemm/gemv/gemv.h"
#include "backends/cuda/gemm/gemv_prefetch/gemv_prefetch.h"
#include "backends/cuda/gemm/lt/cublas_lt.h"
#include "backends/cuda/gemm/lt/lt_gemm.h"
#include "backends/way_list.h"

namespace genesis::cuda {
namespace {

class PlainGemm final : public Gemm {
 public:
  explicit PlainGemm(const GemmProblem& problem) : problem_(problem) {}
  void run(const GemmData& data) const override { run_plain_gemm(problem_, data); }

 private:
  GemmProblem problem_;
};

std::string decline_nothing(const GemmProblem&) { return ""; }

constexpr GemmImplementation kImplementations[] = {
    {"gemv_prefetch", prefetched_gemv_declines, create_prefetched_gemv},
    {"gemv", gemv_declines, create_gemv},
    {"cublas_lt", lt_declines, create_lt, kLtWorkspaceBytes, why_no_lt_here,
     "the library is opened where it runs, and times its algorithms there; without it gemm.plain multiplies"},
    {"plain", decline_nothing, Gemm::create_plain},  // takes all, and cannot be switched off
};

}  // namespace

std::span<const GemmImplementation> gemm_implementations() { return kImplementations; }

std::shared_ptr<const Gemm> Gemm::create_plain(const GemmProblem& problem) {
  return std::make_shared<PlainGemm>(problem);
}

std::shared_ptr<const Gemm> Gemm::create(const GemmProblem& problem, const KernelNames* disabled) {
  const GemmImplementation& way = first_way("gemm", gemm_implementations(), problem, disabled);
  return way.why_not_here && !way.why_not_here().empty() ? create_plain(problem) : way.create(problem);
}

int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled) {
  return first_way("gemm", gemm_implementations(), problem, disabled).workspace_bytes;
}

KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled) {
  KernelChoice choice = choose_way("gemm", gemm_implementations(), problem, disabled);
  choice.decided_later = first_way("gemm", gemm_implementations(), problem, disabled).decided_later;
  return choice;
}

}  // namespace genesis::cuda
