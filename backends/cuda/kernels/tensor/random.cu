// Random numbers and dropout. Element i depends on (seed, step, stream, i) alone: a thread computes whole Philox
// blocks of four words and writes 16 bytes. The bits are the same as the CPU's; see schema/core/philox.h.
#include "schema/ops/tensor/random.h"

#include "backends/cuda/device/packs.h"
#include "schema/core/philox.h"

namespace genesis::cuda {
namespace {

// A stream of random words; its state is data on the device.
struct Draw {
  const int64_t* state;
  uint32_t stream;

  __device__ PhiloxBlock block(uint64_t at) const {
    return philox(static_cast<uint64_t>(state[0]), stream, static_cast<uint32_t>(state[1]), at);
  }
};

Draw draw_of(const KernelContext& c, int64_t stream) {
  return {c.input(0).as<const int64_t>(), static_cast<uint32_t>(stream)};
}

// The 64-bit words of four elements: elements 4 b to 4 b + 3 take blocks 2 b and 2 b + 1, two 32-bit words each.
struct WideWords {
  PhiloxBlock low, high;

  __device__ WideWords(const Draw& draw, uint64_t b) : low(draw.block(2 * b)), high(draw.block(2 * b + 1)) {}
  __device__ uint64_t operator[](int k) const {
    const PhiloxBlock& block = k < 2 ? low : high;
    return uint64_t{block.word[2 * (k % 2)]} << 32 | block.word[2 * (k % 2) + 1];
  }
};

template <class T>
using Four = Pack<T, 4>;

// Uniform in [0, 1): takes only as many random bits as the dtype has below 1, so that nothing rounds up to 1.
template <class T>
struct Uniform {
  __device__ Four<T> operator()(const Draw& draw, uint64_t b, const Four<T>&) const {
    Four<T> y;
    if constexpr (std::is_same_v<T, double>) {
      const WideWords words(draw, b);
      for (int k = 0; k < 4; ++k) y.at[k] = static_cast<double>(words[k] >> 11) * 0x1p-53;
    } else {
      constexpr int kBits = std::is_same_v<T, __nv_bfloat16> ? 8 : std::is_same_v<T, __half> ? 11 : 24;
      const PhiloxBlock block = draw.block(b);
      for (int k = 0; k < 4; ++k)
        y.at[k] =
            narrow<T>(static_cast<float>(block.word[k] >> (32 - kBits)) / static_cast<float>(1u << kBits));
    }
    return y;
  }
};

template <class T>
struct Normal {
  __device__ Four<T> operator()(const Draw& draw, uint64_t b, const Four<T>&) const {
    const PhiloxBlock block = draw.block(b);
    const NormalPair low = normals_from(block.word[0], block.word[1]),
                     high = normals_from(block.word[2], block.word[3]);
    return {{narrow<T>(low.first), narrow<T>(low.second), narrow<T>(high.first), narrow<T>(high.second)}};
  }
};

// Takes the high half of word * range, which scales [0, 2^w) to [0, range).
template <class T>
struct Integer {
  uint64_t low, range;

  __device__ Four<T> operator()(const Draw& draw, uint64_t b, const Four<T>&) const {
    Four<T> y;
    if (range <= uint64_t{1} << 32) {
      const PhiloxBlock block = draw.block(b);
      for (int k = 0; k < 4; ++k) y.at[k] = placed(block.word[k] * range >> 32);
    } else {
      const WideWords words(draw, b);
      for (int k = 0; k < 4; ++k) y.at[k] = placed(__umul64hi(words[k], range));
    }
    return y;
  }
  __device__ T placed(uint64_t offset) const { return converted<T>(static_cast<int64_t>(low + offset)); }
};

template <class T>
struct Coin {
  __device__ Four<T> operator()(const Draw& draw, uint64_t b, const Four<T>& p) const {
    const PhiloxBlock block = draw.block(b);
    Four<T> y;
    for (int k = 0; k < 4; ++k)
      y.at[k] = narrow<T>(uniform_from(block.word[k]) < static_cast<double>(widen(p.at[k])) ? 1.0f : 0.0f);
    return y;
  }
};

template <class T>
struct Drop {
  float limit;
  wide_t<T> scale;
  uint64_t first_block;

  __device__ Four<T> operator()(const Draw& draw, uint64_t b, const Four<T>& x) const {
    const PhiloxBlock block = draw.block(first_block + b);
    Four<T> y;
    for (int k = 0; k < 4; ++k)
      y.at[k] = narrow<T>(widen(x.at[k]) * (uniform_from(block.word[k]) >= limit ? scale : wide_t<T>(0)));
    return y;
  }
};

// A thread has N elements and N / 4 blocks of random words. `x` may be null.
template <class T, int N, class Rule>
__global__ void __launch_bounds__(kThreads)
    draw_elements(Draw draw, Rule rule, int64_t n, bool packed, const T* x, T* y) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (first >= n) return;
  const bool whole = packed && first + N <= n;
  Pack<T, N> values = {};
  if (x != nullptr) {
    if (whole)
      values = *reinterpret_cast<const Pack<T, N>*>(x + first);
    else
      for (int k = 0; k < N; ++k)
        if (first + k < n) values.at[k] = x[first + k];
  }
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    Four<T> four;
    for (int k = 0; k < 4; ++k) four.at[k] = values.at[i + k];
    four = rule(draw, static_cast<uint64_t>((first + i) / 4), four);
    for (int k = 0; k < 4; ++k) values.at[i + k] = four.at[k];
  }
  if (whole)
    *reinterpret_cast<Pack<T, N>*>(y + first) = values;
  else
    for (int k = 0; k < N; ++k)
      if (first + k < n) y[first + k] = values.at[k];
}

// `x` is null or has as many elements as the result.
template <class T, class Rule>
void draw(const KernelContext& c, int64_t stream, const Rule& rule, const T* x) {
  constexpr int N = sizeof(T) == 2 ? 8 : 4;
  T* y = c.output().as<T>();
  const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
  const int64_t n = c.output().numel();
  start(c, draw_elements<T, N, Rule>, blocks_for(n, int64_t{N} * kThreads), kThreads, 0, draw_of(c, stream),
        rule, n, addresses % (N * sizeof(T)) == 0, x, y);
}

void run_rand(const KernelContext& c) {
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    draw<T>(c, c.attributes<ops::Rand>().stream, Uniform<T>{}, nullptr);
  });
}

void run_randn(const KernelContext& c) {
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    draw<T>(c, c.attributes<ops::Randn>().stream, Normal<T>{}, nullptr);
  });
}

void run_randint(const KernelContext& c) {
  const auto& op = c.attributes<ops::RandInt>();
  const uint64_t low = static_cast<uint64_t>(op.low), range = static_cast<uint64_t>(op.high) - low;
  dispatch_any(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    draw<T>(c, op.stream, Integer<T>{low, range}, nullptr);
  });
}

void run_bernoulli(const KernelContext& c) {
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    draw<T>(c, c.attributes<ops::Bernoulli>().stream, Coin<T>{}, c.input(1).as<const T>());
  });
}

void run_dropout(const KernelContext& c) {
  const auto& op = c.attributes<ops::Dropout>();
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Drop<T> rule{static_cast<float>(op.p), static_cast<wide_t<T>>(op.p < 1 ? 1 / (1 - op.p) : 0),
                       static_cast<uint64_t>(op.first) / 4};
    draw<T>(c, op.stream, rule, c.input(1).as<const T>());
  });
}

__global__ void next_state(const int64_t* state, int64_t* next) {
  next[0] = state[0];
  next[1] = static_cast<int64_t>(static_cast<uint64_t>(state[1]) + 1);
}

void run_next(const KernelContext& c) {
  start(c, next_state, 1, 1, 0, c.input(0).as<const int64_t>(), c.output().as<int64_t>());
}

constexpr OpKernel kKernels[] = {{"rand", {.name = "philox", .run = run_rand}},
                                 {"randn", {.name = "philox", .run = run_randn}},
                                 {"randint", {.name = "philox", .run = run_randint}},
                                 {"bernoulli", {.name = "philox", .run = run_bernoulli}},
                                 {"dropout", {.name = "philox", .run = run_dropout}},
                                 {"rng_next", {.name = "plain", .run = run_next}}};

}  // namespace

std::span<const OpKernel> random_kernels() { return kKernels; }

}  // namespace genesis::cuda
