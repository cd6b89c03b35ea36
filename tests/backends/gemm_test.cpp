// Tests every implementation of the matrix product against a plain sum in double. Inputs are small multiples of 1/4,
// so that every sum is exact in f32 and results must be bit-identical. Only activations and f16/bf16 results round.
#include "backends/cpu/gemm/gemm.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <tbb/task_arena.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "backends/cpu/gemm/amx/gemm_amx.h"
#include "backends/cpu/gemm/gemm_implementations.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/tile_product.h"
#include "backends/cpu/parallel/parallel.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {
namespace {

constexpr double kUntouched = 77;  // value of the padding between the rows of C

// Holds `count` elements of `dtype` after `lead` bytes, which give the data any alignment.
class Buffer {
 public:
  Buffer(DType dtype, int64_t count, int lead = 0)
      : dtype_(dtype),
        count_(count),
        lead_(lead),
        bytes_(static_cast<size_t>(count) * size_of(dtype) + static_cast<size_t>(lead)) {}

  void* data() { return bytes_.data() + lead_; }
  const void* data() const { return bytes_.data() + lead_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  int64_t count() const { return count_; }

  double at(int64_t i) const {
    return dispatch(dtype_, [&](auto tag) {
      typename decltype(tag)::type x;
      std::memcpy(&x, static_cast<const std::byte*>(data()) + static_cast<size_t>(i) * sizeof x, sizeof x);
      return static_cast<double>(x);
    });
  }
  void set(int64_t i, double value) {
    dispatch(dtype_, [&](auto tag) {
      const auto x = static_cast<typename decltype(tag)::type>(value);
      std::memcpy(static_cast<std::byte*>(data()) + static_cast<size_t>(i) * sizeof x, &x, sizeof x);
    });
  }
  std::vector<double> values() const {
    std::vector<double> all(static_cast<size_t>(count_));
    for (int64_t i = 0; i < count_; ++i) all[static_cast<size_t>(i)] = at(i);
    return all;
  }
  void fill_random(uint32_t seed) {
    std::minstd_rand random(seed);
    const double unit = is_float(dtype_) ? 0.25 : 1;
    for (int64_t i = 0; i < count_; ++i) set(i, unit * (static_cast<int>(random() >> 8) % 9 - 4));
  }
  void fill(double value) {
    for (int64_t i = 0; i < count_; ++i) set(i, value);
  }

 private:
  DType dtype_;
  int64_t count_;
  int lead_;
  std::vector<std::byte> bytes_;
};

double activate(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

// Sets the strides of dense operands, plus `pad` elements after each row and batch.
GemmProblem dense(GemmProblem p, int64_t pad = 0) {
  p.lda = (p.transpose_a ? p.m : p.k) + pad;
  p.ldb = (p.transpose_b ? p.k : p.n) + pad;
  p.ldc = p.n + pad;
  p.stride_a = (p.transpose_a ? p.k : p.m) * p.lda + pad;
  p.stride_b = (p.transpose_b ? p.n : p.k) * p.ldb + pad;
  p.stride_c = p.m * p.ldc + pad;
  return p;
}

// Returns the number of elements up to the last one of an operand, so that a sanitizer detects reads beyond it.
int64_t extent(const GemmProblem& p, int64_t stride, int64_t rows, int64_t ld, int64_t columns) {
  return p.batch * rows * columns == 0 ? 0 : (p.batch - 1) * stride + (rows - 1) * ld + columns;
}

struct Operands {
  Buffer a, b, c, bias, addend;  // addend: content of C in problems that accumulate

  explicit Operands(const GemmProblem& p, int lead = 0)
      : a(p.a,
          p.transpose_a ? extent(p, p.stride_a, p.k, p.lda, p.m) : extent(p, p.stride_a, p.m, p.lda, p.k),
          lead),
        b(p.b,
          p.transpose_b ? extent(p, p.stride_b, p.n, p.ldb, p.k) : extent(p, p.stride_b, p.k, p.ldb, p.n),
          lead),
        c(p.c, extent(p, p.stride_c, p.m, p.ldc, p.n), lead),
        bias(p.bias, p.n, lead),
        addend(c) {
    a.fill_random(1);
    b.fill_random(2);
    bias.fill_random(3);
    addend.fill_random(4);
    c.fill(kUntouched);
    if (p.accumulate) c = addend;
  }
};

Buffer expected(const GemmProblem& p, const Operands& o) {
  const std::vector<double> a = o.a.values(), b = o.b.values();
  Buffer c = o.c;
  for (int64_t batch = 0; batch < p.batch; ++batch) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        const double* row = a.data() + batch * p.stride_a + i * (p.transpose_a ? 1 : p.lda);
        const double* column = b.data() + batch * p.stride_b + j * (p.transpose_b ? p.ldb : 1);
        const int64_t step_a = p.transpose_a ? p.lda : 1, step_b = p.transpose_b ? 1 : p.ldb;
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k) sum += row[k * step_a] * column[k * step_b];
        const int64_t at = batch * p.stride_c + i * p.ldc + j;
        const double x = activate(p.alpha * sum + (p.has_bias ? o.bias.at(j) : 0), p.activation);
        c.set(at, x + (p.accumulate ? o.addend.at(at) : 0));
      }
    }
  }
  return c;
}

std::string describe(const GemmProblem& p) {
  return std::string(name_of(p.a)) + " x " + std::string(name_of(p.b)) + " -> " + std::string(name_of(p.c)) +
         " batch " + std::to_string(p.batch) + " " + std::to_string(p.m) + "x" + std::to_string(p.n) + "x" +
         std::to_string(p.k) + (p.transpose_a ? " A^T" : "") + (p.transpose_b ? " B^T" : "") +
         (p.has_bias ? " bias" : "") + (p.accumulate ? " accumulate" : "") + " activation " +
         std::to_string(static_cast<int>(p.activation));
}

struct Scratch {
  explicit Scratch(const Gemm& gemm)
      : bytes(static_cast<size_t>(gemm.scratch_bytes()) + 64, std::byte{0xff}) {}
  std::byte* data() {  // 0xff: uninitialized reads give NaN
    return reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
  }
  std::vector<std::byte> bytes;
};

void run(const Gemm& gemm, Operands& o, const void* addend = nullptr) {
  Scratch scratch(gemm);
  gemm.run(o.a.data(), o.b.data(), o.c.data(), o.bias.data(), scratch.data(), addend);
}

// Compares results with activations to within 3 units of f32 or one of the result's type, and all others bit for bit.
void expect_close(const Buffer& got, const Buffer& want, const GemmProblem& p) {
  const double relative = p.c == DType::bf16  ? 0x1p-8
                          : p.c == DType::f16 ? 0x1p-11
                          : p.c == DType::f64 ? 1e-14
                                              : 4e-7;
  const bool exact = p.activation == Activation::kNone || p.activation == Activation::kRelu;
  for (int64_t i = 0; i < want.count(); ++i) {
    const double tolerance = exact ? 0 : relative * std::max(1.0, std::abs(want.at(i)));
    ASSERT_NEAR(got.at(i), want.at(i), tolerance) << "element " << i << " of " << describe(p);
  }
}

// Checks a product whose addend has memory of its own, so that C only receives results.
void check_addend_elsewhere(const GemmProblem& p, const Gemm& gemm, Operands o) {
  o.c.fill(kUntouched);
  const Buffer want = expected(p, o);
  run(gemm, o, o.addend.data());
  expect_close(o.c, want, p);
}

void check(const GemmProblem& p, int lead = 0) {
  const Operands inputs(p, lead);
  const Buffer want = expected(p, inputs);
  for (const GemmImplementation& implementation : gemm_implementations()) {
    if (!implementation.decline(p).empty()) continue;
    SCOPED_TRACE(implementation.name);
    Operands o = inputs;
    const auto gemm = implementation.create(p);
    run(*gemm, o);
    expect_close(o.c, want, p);
    if (p.accumulate) check_addend_elsewhere(p, *gemm, inputs);
    if (::testing::Test::HasFatalFailure()) return;
  }
  Operands o = inputs;
  run(*Gemm::create(p), o);
  expect_close(o.c, want, p);
}

GemmProblem problem(DType type, int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
  GemmProblem p;
  p.a = p.b = p.c = type;
  p.batch = batch;
  p.m = m;
  p.n = n;
  p.k = k;
  return p;
}

void check_forms(GemmProblem p, int64_t pad = 0, int lead = 0) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      p.transpose_a = transpose_a;
      p.transpose_b = transpose_b;
      check(dense(p, pad), lead);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

struct Size {
  int64_t m, n, k;
};
constexpr Size kSizes[] = {{1, 1, 1},    {1, 40, 33},  {2, 65, 128},   {3, 7, 5},      {5, 130, 64},
                           {8, 33, 17},  {14, 32, 8},  {15, 31, 9},    {17, 16, 100},  {29, 97, 31},
                           {40, 8, 257}, {64, 64, 64}, {113, 129, 66}, {200, 70, 1100}};

class GemmTypes : public ::testing::TestWithParam<DType> {};

TEST_P(GemmTypes, AllFormsAndOddSizes) {
  for (const Size& s : kSizes) check_forms(problem(GetParam(), s.m, s.n, s.k));
}

// These sizes are large enough for tasks to pack B: two tiles of rows, and several blocks of depth.
TEST_P(GemmTypes, HighAndNarrowTiles) {
  if (is_integer(GetParam())) GTEST_SKIP() << "integers are not packed";
  for (const Size& s : {Size{515, 1030, 40}, Size{20, 1030, 1100}}) {
    GemmProblem p = problem(GetParam(), s.m, s.n, s.k);
    check_forms(p);
    p.has_bias = true;
    p.bias = GetParam();
    p.accumulate = true;
    check(dense(p));
  }
}

TEST_P(GemmTypes, PaddedRowsAndUnalignedPointers) {
  const int lead = static_cast<int>(size_of(GetParam()));
  for (const Size& s : {Size{3, 35, 19}, Size{1, 70, 65}, Size{30, 47, 21}})
    check_forms(problem(GetParam(), s.m, s.n, s.k), 5, lead);
}

TEST_P(GemmTypes, EmptyDimensions) {
  for (const Size& s : {Size{0, 3, 4}, Size{3, 0, 4}, Size{3, 4, 0}, Size{0, 0, 0}, Size{40, 50, 0}}) {
    GemmProblem p = problem(GetParam(), s.m, s.n, s.k);
    check_forms(p);
    p.has_bias = true;
    p.bias = GetParam();
    check_forms(p);
    p.batch = 0;
    check_forms(p);
  }
}

TEST_P(GemmTypes, BatchesAndBroadcast) {
  for (const Size& s : {Size{17, 40, 12}, Size{1, 40, 70}, Size{50, 33, 64}}) {
    for (const bool transpose_b : {false, true}) {
      GemmProblem p = problem(GetParam(), s.m, s.n, s.k, 5);
      p.transpose_b = transpose_b;
      p = dense(p);
      check(p);
      GemmProblem shared_a = p, shared_b = p;
      shared_a.stride_a = 0;
      shared_b.stride_b = 0;
      check(shared_a);
      check(shared_b);
    }
  }
}

TEST_P(GemmTypes, BiasScaleAndAccumulate) {
  for (const Size& s : {Size{1, 50, 40}, Size{6, 33, 40}, Size{45, 70, 40}}) {
    GemmProblem p = problem(GetParam(), s.m, s.n, s.k);
    p.alpha = is_float(GetParam()) ? 0.5 : 3;
    p.has_bias = true;
    p.bias = is_low_precision(GetParam()) ? DType::f32 : GetParam();
    check_forms(p);
    p.accumulate = true;
    check_forms(p);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmTypes,
                         ::testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32,
                                         DType::i64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Gemm, Activations) {
  for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
    for (int i = 0; i <= static_cast<int>(Activation::kSilu); ++i) {
      for (const Size& s : {Size{2, 37, 20}, Size{30, 70, 20}}) {
        GemmProblem p = problem(type, s.m, s.n, s.k);
        p.transpose_b = true;
        p.has_bias = true;
        p.bias = type;
        p.activation = static_cast<Activation>(i);
        check(dense(p));
        p.accumulate = true;
        check(dense(p));
      }
    }
  }
}

TEST(Gemm, MixedTypes) {
  const DType types[][3] = {{DType::bf16, DType::bf16, DType::f32}, {DType::f16, DType::f16, DType::f32},
                            {DType::f32, DType::bf16, DType::f32},  {DType::f32, DType::f16, DType::f32},
                            {DType::bf16, DType::f32, DType::bf16}, {DType::f32, DType::f64, DType::f64}};
  for (const auto& [a, b, c] : types) {
    for (const Size& s : {Size{1, 70, 66}, Size{20, 33, 47}}) {
      GemmProblem p = problem(a, s.m, s.n, s.k);
      p.b = b;
      p.c = c;
      check_forms(p);
    }
  }
}

TEST(Gemm, LongSums) {  // more than one slice of k, with a low-precision result
  for (const DType type : {DType::f32, DType::bf16}) {
    GemmProblem p = problem(type, 20, 30, 130001);
    p.transpose_a = true;
    p.accumulate = true;
    const GemmProblem q = dense(p);
    Operands o(q);
    const Buffer want = expected(q, o);
    run(*Gemm::create(q), o);
    expect_close(o.c, want, q);
  }
}

TEST(Gemm, InfinitiesAndNanStayInTheirRowAndColumn) {
  for (const int64_t m : {2, 40}) {
    GemmProblem p = problem(DType::f32, m, 50, 30);
    p.transpose_b = true;
    p = dense(p);
    Operands o(p);
    o.a.set(1 * p.lda + 29, NAN);
    o.b.set(7 * p.ldb + 3, INFINITY);
    run(*Gemm::create(p), o);
    for (int64_t j = 0; j < p.n; ++j) EXPECT_TRUE(std::isnan(o.c.at(p.ldc + j)));
    EXPECT_FALSE(std::isfinite(o.c.at(7)));
    EXPECT_TRUE(std::isfinite(o.c.at(8)));
  }
}

// Computes the same as the AMX kernel, tile by tile (gemm_amx.h).
void multiply_tiles(int64_t blocks, const void* a_panel, const void* b_panel, float* sums, bool add,
                    AmxAhead& ahead) {
  constexpr int64_t kTile = 16, kLines = kAmxLines;
  const auto *a = static_cast<const bf16*>(a_panel), *b = static_cast<const bf16*>(b_panel);
  if (!add) std::fill_n(sums, kLines * kLines, 0.0f);
  for (int64_t block = 0; block < blocks; ++block, a += kLines * kAmxK, b += kLines * kAmxK) {
    for (int64_t i = 0; i < kLines; ++i) {
      for (int64_t j = 0; j < kLines; ++j) {
        const bf16* column = b + j / kTile * kTile * kAmxK + j % kTile * 2;
        for (int64_t p = 0; p < kAmxK; ++p)
          sums[i * kLines + j] +=
              static_cast<float>(a[i * kAmxK + p]) * static_cast<float>(column[p / 2 * kTile * 2 + p % 2]);
      }
    }
    ahead.fetch();
  }
}

constexpr AmxKernel kTilesWithoutAmx{multiply_tiles};

// The kernel is chosen only on CPUs with AMX. The packing of its operands and the partition of C can be checked on
// any CPU with AVX-512.
TEST(Gemm, TilesOfAmx) {
  if (!amx_pack_a(true)) GTEST_SKIP() << "this CPU has no AVX-512";
  for (const Size& s : {Size{16, 33, 20}, Size{150, 270, 96}, Size{64, 96, 1056}, Size{128, 256, 64},
                        Size{700, 40, 129}, Size{33, 600, 300}, Size{1, 1, 1}}) {
    for (const DType c : {DType::f32, DType::bf16}) {
      for (const int64_t batch : {1, 3}) {
        for (const int forms : {0, 1, 2, 3}) {
          GemmProblem p = problem(DType::bf16, s.m, s.n, s.k, batch);
          p.c = c;
          p.transpose_a = forms & 1;
          p.transpose_b = forms & 2;
          p.has_bias = forms != 2;
          p.bias = DType::f32;
          p.accumulate = forms == 1;
          p = dense(p, 3);
          if (forms == 3) p.stride_b = 0;
          Operands o(p);
          const Buffer want = expected(p, o);
          run(*create_amx_with(p, kTilesWithoutAmx, {.threads = 4}), o);
          expect_close(o.c, want, p);
          o = Operands(p);
          run(*create_amx_with(p, kTilesWithoutAmx, {.threads = 1, .chunk_bytes = 4096}), o);
          expect_close(o.c, want, p);
        }
      }
    }
  }
}

// The choice follows the measured speed of the chip, not its feature flags.
TEST(Gemm, TakesTheBf16DotProductWhereItGains) {
  const GemmProblem p = dense(problem(DType::bf16, 128, 128, 128));
  const double gain = bf16_dot_gain();
  EXPECT_EQ(gain == 0, micro_kernel_bf16().mr == 0);
  if (gain != 0) {
    EXPECT_GT(gain, 0.2);
    EXPECT_LT(gain, 4);
  }
  EXPECT_EQ(decline_packed_bf16(p).empty(), gain > 1.4) << decline_packed_bf16(p);
}

// Tests every narrower instruction set that this machine supports.
TEST(Gemm, EachInstructionSet) {
  const int64_t all = hwy::SupportedTargets();
  for (const int64_t disabled :
       std::vector<int64_t>{HWY_AVX3, HWY_AVX3 | HWY_AVX2, HWY_AVX3 | HWY_AVX2 | HWY_SSE4}) {
    hwy::SetSupportedTargetsForTest(all & ~disabled);
    for (const DType type : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      for (const Size& s : {Size{1, 70, 66}, Size{6, 70, 66}, Size{29, 53, 31}})
        check_forms(problem(type, s.m, s.n, s.k));
      const TileProduct fits_its_stack({type, true, true, 1, 1, 1});
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

std::vector<std::byte> result_of(const Gemm& gemm, const Operands& inputs) {
  Operands o = inputs;
  run(gemm, o);
  return o.c.bytes();
}

void fill_uneven(Buffer& buffer) {  // sums round, so that any change of order shows
  std::minstd_rand random(5);
  for (int64_t i = 0; i < buffer.count(); ++i) buffer.set(i, static_cast<double>(random()) * 0x1p-31 - 0.3);
}

TEST(Gemm, SameBitsForAnyNumberOfThreads) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Size& s : {Size{1, 500, 700}, Size{4, 300, 900}, Size{150, 170, 1500}, Size{20, 30, 130001}}) {
      for (const bool transpose_b : {false, true}) {
        GemmProblem p = problem(type, s.m, s.n, s.k);
        p.transpose_b = transpose_b;
        p = dense(p);
        Operands o(p);
        fill_uneven(o.a);
        fill_uneven(o.b);
        const auto gemm = Gemm::create(p);
        std::vector<std::byte> one;
        tbb::task_arena(1).execute([&] { one = result_of(*gemm, o); });
        for (const int threads : {2, 4}) {
          std::vector<std::byte> many;
          tbb::task_arena(threads).execute([&] { many = result_of(*gemm, o); });
          EXPECT_EQ(one, many) << threads << " threads, " << describe(p);
        }
      }
    }
  }
}

// The number of threads that the tiles are cut for, and the amount packed at a time, must not change a bit.
TEST(Gemm, SameBitsForAnyCutOfAmx) {
  if (!amx_pack_a(true)) GTEST_SKIP() << "this CPU has no AVX-512";
  const GemmProblem p = dense(problem(DType::bf16, 140, 170, 700));
  Operands o(p);
  fill_uneven(o.a);
  fill_uneven(o.b);
  const auto one = result_of(*create_amx_with(p, kTilesWithoutAmx, {.threads = 1}), o);
  EXPECT_EQ(one, result_of(*create_amx_with(p, kTilesWithoutAmx, {.threads = 7}), o));
  EXPECT_EQ(one, result_of(*create_amx_with(p, kTilesWithoutAmx, {.threads = 3, .chunk_bytes = 4096}), o));
}

TEST(Gemm, EnteredConcurrentlyAndNested) {
  const GemmProblem p = dense(problem(DType::f32, 60, 90, 200));
  const auto gemm = Gemm::create(p);
  const Operands inputs(p);
  const std::vector<std::byte> want = result_of(*gemm, inputs);
  std::vector<int> wrong(16);
  const auto body = [&](int64_t i) { wrong[static_cast<size_t>(i)] = result_of(*gemm, inputs) != want; };
  std::thread other([&] { parallel_chunks(8, body); });
  parallel_chunks(8, [&](int64_t i) { body(8 + i); });
  other.join();
  EXPECT_EQ(wrong, std::vector<int>(16));
}

}  // namespace
}  // namespace genesis::cpu
