// The matrix product of the CPU backend: a description of the problem, an ordered list of implementations, and an object that
// runs the chosen one. Results never depend on the number of threads: the order of every sum follows from the problem alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cpu/gemm/gemm_problem.h"
#include "schema/graph/target.h"

namespace genesis::cpu {

// A matrix product whose sizes are known: C = A B, with the epilogue that the problem describes. An object is created when a plan
// is made and used in every run.
class Gemm {
 public:
  virtual ~Gemm() = default;

  // Returns the first implementation of the list that takes the problem and is not switched off; the last one takes every
  // problem. `disabled` comes from the KernelQuery of the node.
  static std::shared_ptr<const Gemm> create(const GemmProblem& problem,
                                            const KernelNames* disabled = nullptr);

  virtual int64_t scratch_bytes() const = 0;  // size of `scratch` in run(), which is aligned to 64 bytes

  // Uses tbb::parallel_for inside and allocates no memory. Any number of threads may call it at once, each with its own scratch
  // memory. `addend` is what a problem with `accumulate` adds; null = the old contents of C. `bias` is null if the problem has
  // none.
  virtual void run(const void* a, const void* b, void* c, const void* bias, std::byte* scratch,
                   const void* addend = nullptr) const = 0;

  const char* name() const { return name_; }  // the implementation's name in the list, for logs and benches

 protected:
  explicit Gemm(const char* name) : name_(name) {}

 private:
  const char* name_;
};

// An entry of the list, which has the best implementation first. `decline` returns the reason why the implementation cannot run
// the problem, or an empty string if it can.
struct GemmImplementation {
  const char* name;
  std::string (*decline)(const GemmProblem&);
  std::shared_ptr<const Gemm> (*create)(const GemmProblem&);
};

std::span<const GemmImplementation> gemm_implementations();
// Returns the implementation that create() would take, such as "gemm.packed", with the reasons of those that declined.
KernelChoice choose_gemm(const GemmProblem& problem, const KernelNames* disabled);

}  // namespace genesis::cpu
