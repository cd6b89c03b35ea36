#include "backends/cuda/gemm/gemm.h"

#include "backends/cuda/gemm/gemm_plain.h"

namespace genesis::cuda {
namespace {

class PlainGemm final : public Gemm {
 public:
  explicit PlainGemm(const GemmProblem& problem) : problem_(problem) {}
  void run(const GemmData& data) const override { run_plain_gemm(problem_, data); }

 private:
  GemmProblem problem_;
};

}  // namespace

std::shared_ptr<const Gemm> Gemm::create_plain(const GemmProblem& problem) {
  return std::make_shared<PlainGemm>(problem);
}

}  // namespace genesis::cuda
