// Random numbers and dropout. Element i depends only on (seed, step, stream, i); see schema/core/philox.h.
#include "schema/ops/tensor/random.h"

#include <algorithm>

#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/simd/random_vector.h"
#include "backends/kernel.h"
#include "schema/core/philox.h"

namespace genesis::cpu {
namespace {

RandomKey key_of(const TensorView& rng, int64_t stream) {
  const int64_t* state = rng.as<int64_t>();
  return {static_cast<uint64_t>(state[0]), static_cast<uint32_t>(stream), static_cast<uint32_t>(state[1])};
}

// Calls body(first, n) for chunks of at most kRandomChunk elements.
template <class Body>
void each_chunk(int64_t count, const Body& body) {
  parallel_ranges((count + kRandomChunk - 1) / kRandomChunk, 8, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kRandomChunk;
      body(first, std::min(kRandomChunk, count - first));
    }
  });
}

// Returns the two words of element i of a draw of 64-bit numbers: words 2 (i % 2) and 2 (i % 2) + 1 of block i / 2.
uint64_t wide_word(RandomKey key, int64_t i) {
  const PhiloxBlock block = philox(key.seed, key.stream, key.step, static_cast<uint64_t>(i / 2));
  const auto at = static_cast<size_t>(2 * (i % 2));
  return uint64_t{block.word[at]} << 32 | block.word[at + 1];
}

// Uses as many bits as the dtype can hold below 1, so that no result rounds up to 1.
template <class T>
T uniform_of(uint32_t word) {
  constexpr int kBits = std::is_same_v<T, bf16> ? 8 : std::is_same_v<T, f16> ? 11 : 24;
  return T(static_cast<float>(word >> (32 - kBits)) / static_cast<float>(1u << kBits));
}

void run_rand(const KernelContext& c) {
  const RandomKey key = key_of(c.input(0), c.attributes<ops::Rand>().stream);
  each_chunk(c.output().numel(), [&](int64_t first, int64_t n) {
    dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
      T* y = c.output().as<T>() + first;
      if constexpr (std::is_same_v<T, float>) {
        random_uniforms(key, first, n, y);
      } else if constexpr (std::is_same_v<T, double>) {
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<double>(wide_word(key, first + i) >> 11) * 0x1p-53;
      } else if constexpr (!std::is_integral_v<T>) {
        uint32_t words[kRandomChunk];
        random_words(key, first, n, words);
        for (int64_t i = 0; i < n; ++i) y[i] = uniform_of<T>(words[i]);
      }
    });
  });
}

void run_randn(const KernelContext& c) {
  const RandomKey key = key_of(c.input(0), c.attributes<ops::Randn>().stream);
  each_chunk(c.output().numel(), [&](int64_t first, int64_t n) {
    dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
      T* y = c.output().as<T>() + first;
      if constexpr (std::is_same_v<T, float>) {
        random_normals(key, first, n, y);
      } else {
        float normals[kRandomChunk];
        random_normals(key, first, n, normals);
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(normals[i]);
      }
    });
  });
}

// Returns the upper half of word * range, which scales [0, 2^w) to [0, range).
int64_t scaled(RandomKey key, int64_t i, uint32_t word, uint64_t range) {
  if (range <= uint64_t{1} << 32) return static_cast<int64_t>(word * range >> 32);
  return static_cast<int64_t>(static_cast<unsigned __int128>(wide_word(key, i)) * range >> 64);
}

void run_randint(const KernelContext& c) {
  const auto& op = c.attributes<ops::RandInt>();
  const RandomKey key = key_of(c.input(0), op.stream);
  const uint64_t range = static_cast<uint64_t>(op.high) - static_cast<uint64_t>(op.low);
  each_chunk(c.output().numel(), [&](int64_t first, int64_t n) {
    uint32_t words[kRandomChunk];
    random_words(key, first, n, words);
    dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
      for (int64_t i = 0; i < n; ++i) {
        const auto offset = static_cast<uint64_t>(scaled(key, first + i, words[i], range));
        c.output().as<T>()[first + i] =
            static_cast<T>(static_cast<int64_t>(static_cast<uint64_t>(op.low) + offset));
      }
    });
  });
}

void run_bernoulli(const KernelContext& c) {
  const RandomKey key = key_of(c.input(0), c.attributes<ops::Bernoulli>().stream);
  each_chunk(c.output().numel(), [&](int64_t first, int64_t n) {
    float uniforms[kRandomChunk];
    random_uniforms(key, first, n, uniforms);
    dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
      const T* p = c.input(1).as<T>() + first;
      T* y = c.output().as<T>() + first;
      if constexpr (!std::is_integral_v<T>)
        for (int64_t i = 0; i < n; ++i)
          y[i] = static_cast<T>(uniforms[i] < static_cast<double>(p[i]) ? 1.0f : 0.0f);
    });
  });
}

template <class T>
void drop(const T* x, T* y, const float* uniforms, int64_t n, double p) {
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto limit = static_cast<float>(p);
  const auto scale = static_cast<Real>(p < 1 ? 1 / (1 - p) : 0);
  for (int64_t i = 0; i < n; ++i) {
    const Real kept = uniforms[i] >= limit ? scale : Real(0);
    y[i] = static_cast<T>(static_cast<Real>(x[i]) * kept);
  }
}

void run_dropout(const KernelContext& c) {
  const auto& op = c.attributes<ops::Dropout>();
  const RandomKey key = key_of(c.input(0), op.stream);
  each_chunk(c.output().numel(), [&](int64_t first, int64_t n) {
    float uniforms[kRandomChunk];
    random_uniforms(key, op.first + first, n, uniforms);
    dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
      if constexpr (!std::is_integral_v<T>)
        drop(c.input(1).as<T>() + first, c.output().as<T>() + first, uniforms, n, op.p);
    });
  });
}

void run_next(const KernelContext& c) {
  const int64_t* state = c.input(0).as<int64_t>();
  int64_t* next = c.output().as<int64_t>();
  next[0] = state[0];
  next[1] = static_cast<int64_t>(static_cast<uint64_t>(state[1]) + 1);
}

constexpr OpKernel kKernels[] = {{"rand", {.name = "philox", .run = run_rand}},
                                 {"randn", {.name = "philox", .run = run_randn}},
                                 {"randint", {.name = "philox", .run = run_randint}},
                                 {"bernoulli", {.name = "philox", .run = run_bernoulli}},
                                 {"dropout", {.name = "philox", .run = run_dropout}},
                                 {"rng_next", {.name = "plain", .run = run_next}}};

}  // namespace

std::span<const OpKernel> random_kernels() { return kKernels; }

}  // namespace genesis::cpu
