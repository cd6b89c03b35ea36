// The ordered list of matrix product implementations on a GPU, and the choice among them. They are in
// folders of backends/cuda/gemm, with a row each here. info and profile show the choice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cuda/gemm/gemm.h"
#include "schema/graph/target.h"

namespace genesis::cuda {

// One row of the list; the best comes first. `decline` returns why it cannot run the problem, or an empty text. It
// knows this machine's chips, if there are any, and needs none.
struct GemmImplementation {
  const char* name;
  std::string (*decline)(const GemmProblem&);
  std::shared_ptr<const Gemm> (*create)(const GemmProblem&);
  int64_t workspace_bytes = 0;
  // Returns why a library that the row needs is missing here, or an empty text. It is asked when a product is created
  // and not before; a plan shows `decided_later` for this.
  std::string (*why_not_here)() = nullptr;
  const char* decided_later = "";
};

// Creates the product by the first row that accepts the problem here and is not switched off; the last row accepts
// everything. The device must be current. May time several algorithms (gemm/lt/autotune.h). `disabled` comes from the
// query of the node that the product is for.
std::shared_ptr<const Gemm> create_gemm(const GemmProblem& problem, const KernelNames* disabled = nullptr);

// The following functions need no GPU.
std::span<const GemmImplementation> gemm_implementations();
int64_t gemm_workspace_bytes(const GemmProblem& problem, const KernelNames* disabled = nullptr);
// Returns the implementation that create_gemm() would choose, such as "gemm.cublas_lt".
KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled);

}  // namespace genesis::cuda
