// The matrix product of the CPU backend: one description, an ordered list of implementations, one object that
// runs. Used by the matmul, linear, einsum and attention kernels. Results never depend on the number of
// threads: work is split by shape only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cpu/gemm/gemm_problem.h"
#include "schema/graph/target.h"

namespace genesis::cpu {

class Gemm {
 public:
  virtual ~Gemm() = default;

  // The first implementation of the list that takes the problem and is not switched off; the last takes
  // everything. `disabled`: of the query of the node that the product is for.
  static std::shared_ptr<const Gemm> create(const GemmProblem& problem,
                                            const KernelNames* disabled = nullptr);

  virtual int64_t scratch_bytes() const = 0;  // `scratch` below, aligned to 64 bytes

  // Uses tbb::parallel_for inside; allocates nothing; may be entered by any number of threads, each with its
  // scratch. `addend`: what `accumulate` adds, null for the old C.
  virtual void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
                   const void* addend = nullptr) const = 0;

  const char* name() const { return name_; }  // of its row in the list, for logs and benches

 protected:
  explicit Gemm(const char* name) : name_(name) {}

 private:
  const char* name_;
};

// One row of the list, best first. `decline` returns why it cannot run the problem, or an empty text.
struct GemmImplementation {
  const char* name;
  std::string (*decline)(const GemmProblem&);
  std::shared_ptr<const Gemm> (*create)(const GemmProblem&);
};

std::span<const GemmImplementation> gemm_implementations();
// What create() would take: "gemm.packed".
KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled);

}  // namespace genesis::cpu
