// The last implementation of the list, which takes every problem: rows of C in blocks, one loop over k, sums in double or in
// 64-bit integers that wrap around. It reads its operands through one conversion function per type.
#include "backends/cpu/gemm/gemm_implementations.h"

#include <algorithm>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kColumns = 256;  // columns of C per task, whose sums are on its stack

template <class Sum>
using ReadFunction = Sum (*)(const void* data, int64_t at);

template <class Sum>
ReadFunction<Sum> reader(DType dtype) {
  return dispatch(dtype, []<class T>(TypeTag<T>) -> ReadFunction<Sum> {
    return [](const void* data, int64_t at) { return static_cast<Sum>(static_cast<const T*>(data)[at]); };
  });
}

template <class Sum>
void write(void* data, DType dtype, int64_t at, Sum value) {
  dispatch(dtype, [&]<class T>(TypeTag<T>) { static_cast<T*>(data)[at] = static_cast<T>(value); });
}

double finish(double sum, const GemmProblem& p) { return activate(sum, p.activation); }
uint64_t finish(uint64_t sum, const GemmProblem& p) {
  return p.activation == Activation::kRelu && static_cast<int64_t>(sum) < 0 ? 0 : sum;
}

// Sum is double, or uint64_t for integers, since unsigned overflow is defined.
template <class Sum>
class ReferenceGemm final : public Gemm {
 public:
  explicit ReferenceGemm(const GemmProblem& p)
      : Gemm("reference"),
        p_(p),
        read_a_(reader<Sum>(p.a)),
        read_b_(reader<Sum>(p.b)),
        read_c_(reader<Sum>(p.c)),
        read_bias_(reader<Sum>(p.bias)) {}

  int64_t scratch_bytes() const override { return 0; }

  void run(const void* a, const void* b, void* c, const void* bias, std::byte*,
           const void* given) const override {
    const void* addend = addend_of(p_, c, given);
    const int64_t blocks = ceil_div(p_.n, kColumns);
    parallel_chunks(p_.batch * p_.m * blocks, [&](int64_t index) {
      row(a, b, c, bias, addend, index / blocks / p_.m, index / blocks % p_.m, index % blocks * kColumns);
    });
  }

 private:
  void row(const void* a, const void* b, void* c, const void* bias, const void* addend, int64_t batch,
           int64_t i, int64_t j0) const {
    const int64_t n = std::min(kColumns, p_.n - j0);
    Sum sum[kColumns] = {};
    for (int64_t p = 0; p < p_.k; ++p) {
      const Sum x = read_a_(a, batch * p_.stride_a + (p_.transpose_a ? p * p_.lda + i : i * p_.lda + p));
      for (int64_t j = 0; j < n; ++j) sum[j] += x * read_b_(b, at_b(batch, p, j0 + j));
    }
    for (int64_t j = 0; j < n; ++j) {
      const int64_t at = batch * p_.stride_c + i * p_.ldc + j0 + j;
      Sum x = scale(sum[j]);
      if (p_.has_bias) x += read_bias_(bias, j0 + j);
      x = finish(x, p_);
      write(c, p_.c, at, addend ? x + read_c_(addend, at) : x);
    }
  }

  int64_t at_b(int64_t batch, int64_t p, int64_t j) const {
    return batch * p_.stride_b + (p_.transpose_b ? j * p_.ldb + p : p * p_.ldb + j);
  }

  Sum scale(Sum x) const {
    if constexpr (std::is_same_v<Sum, double>)
      return p_.alpha * x;
    else
      return static_cast<Sum>(static_cast<int64_t>(p_.alpha)) * x;
  }

  GemmProblem p_;
  ReadFunction<Sum> read_a_, read_b_, read_c_, read_bias_;
};

}  // namespace

std::string decline_reference(const GemmProblem&) { return {}; }

std::shared_ptr<const Gemm> create_reference(const GemmProblem& problem) {
  const bool floats = is_float(problem.a) || is_float(problem.b) || is_float(problem.c);
  if (floats) return std::make_shared<ReferenceGemm<double>>(problem);
  return std::make_shared<ReferenceGemm<uint64_t>>(problem);
}

}  // namespace genesis::cpu
