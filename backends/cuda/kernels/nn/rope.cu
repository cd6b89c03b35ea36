// rope in one pass. A block handles some time steps: it computes their cosines and sines once, in shared memory, and
// uses them for every head. Angles are reduced in double precision, so that positions around a million are rotated as
// exactly as small ones.
#include <cmath>

#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/rotation_angle.h"
#include "schema/ops/nn/rope.h"

namespace genesis::cuda {
namespace {

constexpr int kMaxPairs = 256;  // most pairs whose frequencies are passed as kernel parameters

struct RopeArguments {
  const void* x = nullptr;
  void* y = nullptr;
  const int64_t* positions = nullptr;
  const double* given = nullptr;  // frequencies from an input, [pairs] or [batch, pairs]; null: `frequencies`
  int64_t given_step = 0;         // from one row of the batch to the next
  int64_t rows = 0, time = 1;     // rows: batch * time
  int heads = 1, size = 2, pairs = 1;  // `heads`: number of heads that are rotated
  int row_size = 2;                    // elements of a row: the rotated heads, then the others
  int at_once = 1;                     // rows per block
  bool per_row = false, rotate_half = true;
  double exponent = 0;              // pair i has frequency theta ^ (exponent * i)
  double theta = 1, direction = 1;  // direction: -1 rotates back
  double frequencies[kMaxPairs] = {};
};

__device__ inline double frequency_of(const RopeArguments& a, int64_t row, int pair) {
  if (a.given) return a.direction * a.given[row / a.time * a.given_step + pair];
  return a.pairs <= kMaxPairs ? a.frequencies[pair] : a.direction * pow(a.theta, a.exponent * pair);
}

// Computes the tables for `at_once` rows: cosines, then sines.
template <class W>
__device__ void make_tables(const RopeArguments& a, int64_t first, W* tables) {
  for (int i = threadIdx.x; i < a.at_once * a.pairs; i += blockDim.x) {
    const int64_t row = first + i / a.pairs;
    if (row >= a.rows) continue;
    const double angle =
        static_cast<double>(a.positions[a.per_row ? row : row % a.time]) * frequency_of(a, row, i % a.pairs);
    W sine, cosine;
    sine_and_cosine(angle, sine, cosine);
    tables[i] = cosine;
    tables[a.at_once * a.pairs + i] = sine;
  }
  __syncthreads();
}

// Rotates N pairs: (i, i + pairs), or (2i, 2i + 1).
template <class T, int N>
__device__ void rotate(const RopeArguments& a, const T* x, T* y, int pair, const wide_t<T>* cosines,
                       const wide_t<T>* sines) {
  using W = wide_t<T>;
  using P = Pack<T, N>;
  // `low` and `high` are the two packs; with neighboring pairs, each holds N / 2 pairs.
  const int low_at = a.rotate_half ? pair : 2 * pair, high_at = a.rotate_half ? pair + a.pairs : 2 * pair + N;
  const P low = *reinterpret_cast<const P*>(x + low_at), high = *reinterpret_cast<const P*>(x + high_at);
  P low_out, high_out;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const W c = cosines[pair + j], s = sines[pair + j];
    // With neighboring pairs, pair j is elements 2j and 2j + 1 of the concatenated packs.
    const auto element = [&](int k) { return widen(k < N ? low.at[k % N] : high.at[k % N]); };
    const W p = a.rotate_half ? widen(low.at[j]) : element(2 * j);
    const W q = a.rotate_half ? widen(high.at[j]) : element(2 * j + 1);
    const T first = narrow<T>(p * c - q * s), second = narrow<T>(q * c + p * s);
    if (a.rotate_half) {
      low_out.at[j] = first;
      high_out.at[j] = second;
    } else {
      (2 * j < N ? low_out : high_out).at[2 * j % N] = first;
      (2 * j + 1 < N ? low_out : high_out).at[(2 * j + 1) % N] = second;
    }
  }
  *reinterpret_cast<P*>(y + low_at) = low_out;
  *reinterpret_cast<P*>(y + high_at) = high_out;
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) rope_kernel(const __grid_constant__ RopeArguments a) {
  using W = wide_t<T>;
  begin_in_order();
  extern __shared__ __align__(16) unsigned char shared_rows[];
  W* tables = reinterpret_cast<W*>(shared_rows);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * a.at_once;
  make_tables(a, first, tables);
  const int rotated = a.heads * (a.pairs / N), rest = a.size - 2 * a.pairs;
  for (int i = threadIdx.x; i < a.at_once * rotated; i += blockDim.x) {
    const int row = i / rotated, head = i % rotated / (a.pairs / N), pair = i % (a.pairs / N) * N;
    if (first + row >= a.rows) break;
    const int64_t at = (first + row) * a.row_size + head * a.size;
    const W* cosines = tables + row * a.pairs;
    rotate<T, N>(a, static_cast<const T*>(a.x) + at, static_cast<T*>(a.y) + at, pair, cosines,
                 cosines + a.at_once * a.pairs);
  }
  if (a.x == a.y) return;
  for (int i = threadIdx.x; i < a.at_once * a.heads * rest; i += blockDim.x) {
    const int64_t row = first + i / (a.heads * rest);
    if (row >= a.rows) break;
    const int64_t at = row * a.row_size + i / rest % a.heads * a.size + 2 * a.pairs + i % rest;
    static_cast<T*>(a.y)[at] = static_cast<const T*>(a.x)[at];
  }
  // Copies the heads that are not rotated.
  using P = Pack<T, N>;
  const int rotated_size = a.heads * a.size, packs = (a.row_size - rotated_size) / N;
  for (int i = threadIdx.x; i < a.at_once * packs; i += blockDim.x) {
    const int64_t row = first + i / packs;
    if (row >= a.rows) break;
    const int64_t at = row * a.row_size + rotated_size + i % packs * N;
    *reinterpret_cast<P*>(static_cast<T*>(a.y) + at) =
        *reinterpret_cast<const P*>(static_cast<const T*>(a.x) + at);
  }
}

std::shared_ptr<const void> prepare_rope(const KernelQuery& query) {
  auto a = std::make_shared<RopeArguments>();
  const auto op = from_attributes<ops::Rope>(query.attributes);
  const auto x = query.inputs[0].shape.sizes();
  const int64_t rotated = op.rotary_size == 0 ? x[3] : op.rotary_size;
  a->rows = x[0] * x[1];
  a->time = x[1];
  a->heads = static_cast<int>(op.heads == 0 ? x[2] : op.heads);
  a->row_size = static_cast<int>(x[2] * x[3]);
  a->size = static_cast<int>(x[3]);
  a->pairs = static_cast<int>(rotated / 2);
  a->per_row = query.inputs[1].shape.rank() == 2;
  a->rotate_half = op.kind == RopeKind::kHalf;
  a->theta = op.theta;
  a->direction = op.inverse ? -1 : 1;
  a->exponent = rotated == 0 ? 0 : -2.0 / static_cast<double>(rotated);
  for (int i = 0; i < std::min(a->pairs, kMaxPairs); ++i)
    a->frequencies[i] = a->direction * std::pow(op.theta, -2.0 * i / static_cast<double>(rotated));
  return a;
}

void run_rope(const KernelContext& c) {
  if (c.output().numel() == 0) return;
  RopeArguments a = c.prepared<RopeArguments>();
  a.x = c.input(0).data;
  a.y = c.output().data;
  a.positions = c.input(1).as<const int64_t>();
  if (c.inputs.size() > 2) {
    a.given = c.input(2).as<const double>();
    a.given_step = c.input(2).rank == 2 ? a.pairs : 0;
  }
  dispatch_float(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWidest = 16 / sizeof(T);
    const auto launch = [&](auto size) {
      const int row_work = std::max(1, a.heads * a.pairs / size());
      a.at_once = std::clamp(kThreads / row_work, 1, 16);
      const size_t tables = 2 * static_cast<size_t>(a.at_once * a.pairs) * sizeof(wide_t<T>);
      start_with_pdl(c, rope_kernel<T, size()>, blocks_for(a.rows, a.at_once), kThreads, tables, a);
    };
    if (a.pairs % kWidest == 0 && a.size % kWidest == 0 && aligned_to_packs(c))
      launch(std::integral_constant<int, kWidest>{});
    else
      launch(std::integral_constant<int, 1>{});
  });
}

// The tables of one row must fit into the 48 KB of shared memory that a block may have on every chip.
std::optional<std::string> can_run_rope(const KernelQuery& query) {
  constexpr int64_t kShared = 48 << 10;
  const TensorType& x = query.inputs[0];
  const int64_t wide = x.dtype == DType::f64 ? 8 : 4;
  if (x.shape[3].value() * wide > kShared) return "a head is longer than shared memory holds angles for";
  if (x.shape[2].value() * x.shape[3].value() > (int64_t{1} << 26)) return "a row has too many elements";
  return std::nullopt;
}

constexpr OpKernel kOps[] = {
    {"rope", {.name = "one_pass", .run = run_rope, .can_run = can_run_rope, .prepare = prepare_rope}}};

}  // namespace

std::span<const OpKernel> rope_kernels() { return kOps; }

}  // namespace genesis::cuda
