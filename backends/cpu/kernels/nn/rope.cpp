// rope on the CPU. A task rotates some positions of the sequence. For each it computes the cosines and sines once, in scratch
// memory, and uses them for every head, and for every batch entry with the same positions. Angles are reduced in double
// precision, so that a position of a million is as accurate as a small one.
#include <cmath>
#include <numbers>
#include <vector>

#include "backends/cpu/kernels/nn/rope_row.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/parallel/task_scratch.h"
#include "backends/cpu/simd/highway_targets.h"
#include "backends/cpu/simd/row_jobs.h"
#include "backends/kernel.h"
#include "schema/ops/nn/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/nn/rope.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/simd/row_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

// Computes the cosines and sines of position * frequency for `n` pairs. The angle is reduced by multiples of pi/2 in double
// precision; the remainder goes through the polynomials of Cephes' sinf and cosf in float.
void make_table(double position, const double* frequencies, int64_t n, float* cosines, float* sines) {
  for (int64_t i = 0; i < n; ++i) {
    const double angle = position * frequencies[i], turns = std::nearbyint(angle * (2 / std::numbers::pi));
    const auto x =
        static_cast<float>((angle - turns * 1.57079632679489655800) - turns * 6.12323399573676603587e-17);
    const auto quadrant = static_cast<int64_t>(turns);
    const float x2 = x * x;
    const float s = x + x * x2 * (-1.6666654611e-1f + x2 * (8.3321608736e-3f + x2 * -1.9515295891e-4f));
    const float c =
        1 - 0.5f * x2 +
        x2 * x2 * (4.166664568298827e-2f + x2 * (-1.388731625493765e-3f + x2 * 2.443315711809948e-5f));
    const float sine = quadrant & 1 ? c : s, cosine = quadrant & 1 ? s : c;
    sines[i] = quadrant & 2 ? -sine : sine;
    cosines[i] = (quadrant + 1) & 2 ? -cosine : cosine;
  }
}

// Rotates pairs of elements i and i + pairs.
template <bool kStream, class T>
void rotate_halves(const RopeRow& row, const T* x, T* y) {
  const auto *cosines = static_cast<const float*>(row.cosines), *sines = static_cast<const float*>(row.sines);
  each_vector(row.pairs, [&](int64_t i, auto part) {
    const Vec a = load(x + i, part), b = load(x + row.pairs + i, part), c = load(cosines + i, part),
              s = load(sines + i, part);
    put<kStream>(hn::MulSub(a, c, hn::Mul(b, s)), y + i, part);
    put<kStream>(hn::MulAdd(b, c, hn::Mul(a, s)), y + row.pairs + i, part);
  });
}

// Rotates pairs of elements 2i and 2i + 1.
template <class T>
void rotate_neighbors(const RopeRow& row, const T* x, T* y) {
  const auto *cosines = static_cast<const float*>(row.cosines), *sines = static_cast<const float*>(row.sines);
  for (int64_t i = 0; i < row.pairs; ++i) {
    const auto a = static_cast<float>(x[2 * i]), b = static_cast<float>(x[2 * i + 1]);
    y[2 * i] = static_cast<T>(a * cosines[i] - b * sines[i]);
    y[2 * i + 1] = static_cast<T>(b * cosines[i] + a * sines[i]);
  }
}

template <class T>
void rotate(const RopeRow& row) {
  const auto* x = static_cast<const T*>(row.x);
  auto* y = static_cast<T*>(row.y);
  for (int64_t h = 0; h < row.heads; ++h, x += row.size, y += row.size) {
    if (row.kind == RopeKind::kInterleaved)
      rotate_neighbors(row, x, y);
    else
      row.stream ? rotate_halves<true>(row, x, y) : rotate_halves<false>(row, x, y);
    if (x != y)
      for (int64_t d = 2 * row.pairs; d < row.size; ++d) y[d] = x[d];
  }
}

}  // namespace

using Rotate = void (*)(const RopeRow&);
Rotate rotate_of(DType dtype) {
  return dispatch_rows(dtype, []<class T>(TypeTag<T>) { return rotate<T>; });
}
using MakeTable = void (*)(double, const double*, int64_t, float*, float*);
MakeTable table_maker() { return make_table; }

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(rotate_of);
HWY_EXPORT(table_maker);

namespace {

struct Prepared {
  ops::Rope op;
  int64_t batch, time, heads, size, pairs;
  int64_t rotated;                  // heads that rotate; the rest pass through
  bool own_positions;               // [batch, time]
  bool given, own_frequencies;      // frequencies are an input; of shape [batch, pairs]
  std::vector<double> frequencies;  // one per pair, negated for an inverse rotation; empty if given

  // Work is counted in rows of positions: one per time step, or one per time step and batch entry if batch entries have their own
  // positions or frequencies. One row of positions rotates `shared` batch entries. A chunk is `grain` of these rows, one task.
  bool per_row() const { return own_positions || own_frequencies; }
  int64_t rows() const { return per_row() ? batch * time : time; }
  int64_t shared() const { return per_row() ? 1 : batch; }
  int64_t grain() const {
    return std::max<int64_t>(1, kInlineBytes / (shared() * heads * size * 8 + pairs * 64 + 1));
  }
  int64_t chunks() const { return (rows() + grain() - 1) / grain(); }
  int64_t table_bytes() const { return 2 * pairs * static_cast<int64_t>(sizeof(double)) + 128; }
};

std::shared_ptr<const Prepared> prepare_typed(const KernelQuery& query) {
  auto prepared = std::make_shared<Prepared>();
  prepared->op = from_attributes<ops::Rope>(query.attributes);
  const auto x = query.inputs[0].shape.sizes();
  const int64_t rotated = prepared->op.rotary_size == 0 ? x[3] : prepared->op.rotary_size;
  prepared->batch = x[0];
  prepared->time = x[1];
  prepared->heads = x[2];
  prepared->rotated = prepared->op.heads == 0 ? x[2] : prepared->op.heads;
  prepared->size = x[3];
  prepared->pairs = rotated / 2;
  prepared->own_positions = query.inputs[1].shape.rank() == 2;
  prepared->given = query.inputs.size() > 2;
  prepared->own_frequencies = prepared->given && query.inputs[2].shape.rank() == 2;
  for (int64_t i = 0; i < prepared->pairs && !prepared->given; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotated);
    prepared->frequencies.push_back((prepared->op.inverse ? -1 : 1) * std::pow(prepared->op.theta, exponent));
  }
  return prepared;
}

std::shared_ptr<const void> prepare_rope(const KernelQuery& query) { return prepare_typed(query); }

int64_t rope_scratch(const KernelQuery& query) {
  const auto prepared = prepare_typed(query);
  return TaskScratch::bytes_for(prepared->chunks(), prepared->table_bytes());
}

void make_table_f64(double position, const double* frequencies, int64_t n, double* cosines, double* sines) {
  for (int64_t i = 0; i < n; ++i) {
    cosines[i] = std::cos(position * frequencies[i]);
    sines[i] = std::sin(position * frequencies[i]);
  }
}

void rotate_f64(const RopeRow& row) {
  const auto* x = static_cast<const double*>(row.x);
  auto* y = static_cast<double*>(row.y);
  const auto *cosines = static_cast<const double*>(row.cosines),
             *sines = static_cast<const double*>(row.sines);
  const bool rotate_half = row.kind == RopeKind::kHalf;
  for (int64_t h = 0; h < row.heads; ++h, x += row.size, y += row.size) {
    for (int64_t i = 0; i < row.pairs; ++i) {
      const int64_t first = rotate_half ? i : 2 * i, second = rotate_half ? i + row.pairs : 2 * i + 1;
      const double a = x[first], b = x[second];
      y[first] = a * cosines[i] - b * sines[i];
      y[second] = b * cosines[i] + a * sines[i];
    }
    if (x != y) std::copy(x + 2 * row.pairs, x + row.size, y + 2 * row.pairs);
  }
}

// Writes the cosines and sines of row `index` of the positions.
void make_row_table(const KernelContext& c, const Prepared& p, int64_t index, std::byte* cosines,
                    std::byte* sines) {
  const int64_t at = p.own_positions ? index : index % p.time;
  auto position = static_cast<double>(c.input(1).as<int64_t>()[at]);
  const double* frequencies = p.frequencies.data();
  if (p.given) {
    frequencies = c.input(2).as<const double>() + (p.own_frequencies ? index / p.time * p.pairs : 0);
    if (p.op.inverse) position = -position;
  }
  if (c.output().dtype == DType::f64)
    return make_table_f64(position, frequencies, p.pairs, reinterpret_cast<double*>(cosines),
                          reinterpret_cast<double*>(sines));
  HWY_DYNAMIC_DISPATCH(table_maker)
  ()(position, frequencies, p.pairs, reinterpret_cast<float*>(cosines), reinterpret_cast<float*>(sines));
}

// Rotates the elements at row `index` of the positions, in all batch entries that share it.
void run_row(const KernelContext& c, const Prepared& p, int64_t index, std::byte* scratch) {
  std::byte* sines = scratch + p.table_bytes() / 2;
  make_row_table(c, p, index, scratch, sines);
  const bool wide = c.output().dtype == DType::f64;
  const auto rotate = wide ? rotate_f64 : HWY_DYNAMIC_DISPATCH(rotate_of)(c.output().dtype);
  const int64_t head_bytes = p.size * static_cast<int64_t>(size_of(c.output().dtype)),
                row_bytes = p.heads * head_bytes, rotated_bytes = p.rotated * head_bytes;
  for (int64_t b = 0; b < p.shared(); ++b) {
    const int64_t offset = (b * p.time + index) * row_bytes;
    const std::byte* x = c.input(0).as<std::byte>() + offset;
    std::byte* y = c.output().as<std::byte>() + offset;
    rotate({x, y, scratch, sines, p.rotated, p.size, p.pairs, p.op.kind,
            streams(c.output(), p.pairs, c.input(0).data) && p.size % 32 == 0});
    if (x != y) std::copy(x + rotated_bytes, x + row_bytes, y + rotated_bytes);
  }
}

void run_rope(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (c.output().numel() == 0) return;
  TaskScratch task_scratch(c.scratch, p.chunks(), p.table_bytes());
  parallel_chunks(p.chunks(), [&](int64_t chunk) {
    task_scratch.with([&](std::byte* scratch) {
      const int64_t last = std::min(p.rows(), (chunk + 1) * p.grain());
      for (int64_t row = chunk * p.grain(); row < last; ++row) run_row(c, p, row, scratch);
    });
  });
}

constexpr OpKernel kKernels[] = {
    {"rope", {.name = "simd", .run = run_rope, .scratch_bytes = rope_scratch, .prepare = prepare_rope}}};

}  // namespace

std::span<const OpKernel> rope_kernels() { return kKernels; }

}  // namespace genesis::cpu
#endif
