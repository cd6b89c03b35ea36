// Measures the limits that benches compare with. Each figure is the best of several short runs, because disturbances only ever
// make a run slower.
#include "backends/cpu/peaks.h"

#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>

#include <hwy/aligned_allocator.h>

#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/simd/amx.h"
#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/peaks.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Runs `steps` rounds of 12 independent multiply-add chains and returns the number of floating-point operations. 12 chains are
// more than enough to hide a latency of 4 cycles at 2 instructions per cycle, and they fit 16 registers.
double fma_chains(int64_t steps, float* sink) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kChains = 12;
  V sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Set(d, sink[0] + static_cast<float>(i));
  const V x = hn::Set(d, sink[1]), y = hn::Set(d, sink[2]);
  for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = hn::MulAdd(x, y, sum[i]);
  }
  V all = sum[0];
  for (int i = 1; i < kChains; ++i) all = hn::Add(all, sum[i]);
  sink[3] = hn::GetLane(all);
  return 2.0 * static_cast<double>(steps) * kChains * static_cast<double>(hn::Lanes(d));
}

// Returns the sum of n floats, where n is a multiple of 4 vectors. Memory is read as four streams, since a single one keeps too
// few cache lines in flight.
float sum_of(const float* p, int64_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), part = n / 4;
  V a = hn::Zero(d), b = a, c = a, e = a;
  for (int64_t i = 0; i < part; i += lanes) {
    a = hn::Add(a, hn::LoadU(d, p + i));
    b = hn::Add(b, hn::LoadU(d, p + i + part));
    c = hn::Add(c, hn::LoadU(d, p + i + 2 * part));
    e = hn::Add(e, hn::LoadU(d, p + i + 3 * part));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

void copy_streaming(const float* from, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) hn::Stream(hn::LoadU(d, from + i), d, to + i);
}

void copy_plain(const float* from, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace genesis::cpu {
namespace {

HWY_EXPORT(fma_chains);
HWY_EXPORT(sum_of);
HWY_EXPORT(copy_streaming);
HWY_EXPORT(copy_plain);

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16"))) double bf16_chains(int64_t steps,
                                                                                            float* sink) {
  constexpr int kChains = 12;
  __m512 sum[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(sink[0] + static_cast<float>(i));
  const __m512bh x = (__m512bh)_mm512_set1_ps(sink[1]), y = (__m512bh)_mm512_set1_ps(sink[2]);
  for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], x, y);
  }
  __m512 all = sum[0];
  for (int i = 1; i < kChains; ++i) all = _mm512_add_ps(all, sum[i]);
  sink[3] = _mm512_cvtss_f32(all);
  return 4.0 * static_cast<double>(steps) * kChains * 16;
}
bool has_bf16() { return __builtin_cpu_supports("avx512bf16"); }

// Two operand tiles with random signs and mantissas, magnitudes between 1/2 and 2. Zeros would not do: they take less power, so a
// core multiplies them faster than any real product can run.
struct AmxOperands {
  alignas(64) std::array<uint16_t, 2 * 16 * 32> values{};

  AmxOperands() {
    std::minstd_rand random(1);
    for (uint16_t& x : values) x = static_cast<uint16_t>((random() >> 8 & 0x80ff) | 0x3f00);
  }
};

// Runs four independent chains of AMX products, each 16 x 32 by 32 x 16 into a 16 x 16 accumulator. All tiles stay in registers.
__attribute__((target("amx-tile,amx-bf16"))) double amx_chains(int64_t steps, float* sink) {
  constexpr int kRowBytes = 64, kTileElements = 16 * 32;
  static const AmxOperands operands;
  AmxShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.set(tile, 16, kRowBytes);
  load_shapes(shapes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, operands.values.data(), kRowBytes);
  _tile_loadd(5, operands.values.data() + kTileElements, kRowBytes);
  _tile_loadd(6, operands.values.data(), kRowBytes);
  _tile_loadd(7, operands.values.data() + kTileElements, kRowBytes);
  for (int64_t s = 0; s < steps; ++s) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  alignas(64) float sums[16 * 16];
  _tile_stored(0, sums, 64);
  _tile_release();
  sink[3] = sums[0];
  return static_cast<double>(steps) * 4 * (2 * 16 * 16 * 32);
}
#else
double bf16_chains(int64_t, float*) { return 0; }
bool has_bf16() { return false; }
double amx_chains(int64_t, float*) { return 0; }
#endif

double seconds_of(const auto& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Returns the GFLOP/s of all threads together. There are more tasks than threads, so that one disturbed thread does not delay the
// whole run.
double parallel_chains(double (*chains)(int64_t, float*)) {
  const int chunks = 16 * tbb::this_task_arena::max_concurrency();
  std::atomic<int64_t> flops{0};
  const double seconds = seconds_of([&] {
    parallel_chunks(chunks, [&](int64_t) {
      float sink[4] = {1, 1e-9f, 1e-9f, 0};
      flops += static_cast<int64_t>(chains(20000, sink));
    });
  });
  return static_cast<double>(flops) / seconds * 1e-9;
}

template <class Measure>
double best_of(int times, const Measure& measure) {
  double best = 0;
  for (int i = 0; i < times; ++i) best = std::max(best, measure());
  return best;
}

constexpr int64_t kFloats = int64_t{64} << 20;  // 256 MiB
constexpr int64_t kChunk = 256 << 10;

double read_once(const float* data, int64_t floats) {
  std::atomic<int> positive{0};
  const double seconds = seconds_of([&] {
    parallel_ranges(floats / kChunk, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        positive += HWY_DYNAMIC_DISPATCH(sum_of)(data + i * kChunk, kChunk) > 0;
    });
  });
  return positive > 0 ? static_cast<double>(floats) * 4 / seconds * 1e-9 : 0;
}

double copy_once(const float* from, float* to, int64_t floats) {
  const double seconds = seconds_of([&] {
    parallel_ranges(floats / kChunk, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        HWY_DYNAMIC_DISPATCH(copy_streaming)(from + i * kChunk, to + i * kChunk, kChunk);
    });
  });
  return static_cast<double>(floats) * 8 / seconds * 1e-9;
}

// Returns the best speed over consecutive windows of an array far larger than the caches. On a busy machine a short window is
// more likely to have the cores to itself than a long one.
template <class Measure>
double best_window(int64_t floats, const Measure& measure) {
  const int64_t window = std::min(floats, 4 * kChunk * tbb::this_task_arena::max_concurrency());
  double best = 0;
  for (int round = 0; round < 4; ++round)
    for (int64_t at = 0; at + window <= floats; at += window) best = std::max(best, measure(at, window));
  return best;
}

// Each core repeatedly reads its own `floats` elements, or copies their first half to the second. Returns GB/s of all cores.
double resident_once(float* data, int64_t floats, bool copies) {
  constexpr int64_t kWork = 1 << 20;
  const int64_t repeats = std::max<int64_t>(1, kWork / floats);
  const int cores = tbb::this_task_arena::max_concurrency();
  std::atomic<int> positive{0};
  const double seconds = seconds_of([&] {
    parallel_chunks(cores, [&](int64_t core) {
      float* mine = data + core * floats;
      float sum = 1;
      for (int64_t i = 0; i < repeats; ++i)
        if (copies)
          HWY_DYNAMIC_DISPATCH(copy_plain)(mine, mine + floats / 2, floats / 2);
        else
          sum += HWY_DYNAMIC_DISPATCH(sum_of)(mine, floats);
      positive += sum > 0;
    });
  });
  return positive > 0 ? static_cast<double>(repeats * floats * cores) * 4 / seconds * 1e-9 : 0;
}

std::vector<ResidentSpeed> resident_speeds(float* data) {
  const int64_t cores = tbb::this_task_arena::max_concurrency();
  std::vector<ResidentSpeed> speeds;
  for (int64_t floats = 4 << 10; floats * cores <= kFloats / 4; floats *= 4) {
    double best = 0;
    for (int i = 0; i < 10; ++i)
      for (const bool copies : {false, true}) best = std::max(best, resident_once(data, floats, copies));
    speeds.push_back({floats * cores * 4, best});
  }
  return speeds;
}

}  // namespace

double measure_fma_f32() {
  return parallel_chains(
      [](int64_t steps, float* sink) { return HWY_DYNAMIC_DISPATCH(fma_chains)(steps, sink); });
}

double measure_fma_bf16() {
  return may_use_amx_bf16() ? parallel_chains(amx_chains) : has_bf16() ? parallel_chains(bf16_chains) : 0;
}

namespace {

hwy::AlignedFreeUniquePtr<float[]> make_ones() {
  auto data = hwy::AllocateAligned<float>(kFloats);
  parallel_ranges(kFloats / kChunk, 1, [&](int64_t first, int64_t last) {
    std::fill(data.get() + first * kChunk, data.get() + last * kChunk, 1.0f);
  });
  return data;
}

}  // namespace

struct ReadMeter::Array {
  hwy::AlignedFreeUniquePtr<float[]> data = make_ones();
};
ReadMeter::ReadMeter() : array_(std::make_unique<const Array>()) {}
ReadMeter::~ReadMeter() = default;
double ReadMeter::gbps() const { return read_once(array_->data.get(), kFloats); }

Peaks measure_peaks() {
  const auto data = make_ones();
  Peaks peaks;
  peaks.fma_f32_gflops = best_of(10, measure_fma_f32);
  peaks.fma_bf16_gflops = best_of(10, measure_fma_bf16);
  float* const half = data.get() + kFloats / 2;
  peaks.read_gbps =
      best_window(kFloats, [&](int64_t at, int64_t floats) { return read_once(data.get() + at, floats); });
  peaks.copy_gbps = best_window(
      kFloats / 2, [&](int64_t at, int64_t floats) { return copy_once(data.get() + at, half + at, floats); });
  peaks.resident = resident_speeds(data.get());
  return peaks;
}

}  // namespace genesis::cpu
#endif
