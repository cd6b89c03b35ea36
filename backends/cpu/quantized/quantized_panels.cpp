#include "backends/cpu/quantized/quantized_panels.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/gemm_util.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/parallel/task_scratch.h"
#include "backends/cpu/quantized/quantized_rows.h"
#include "schema/core/float16.h"
#include "schema/encoding/q4m.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace genesis::cpu {
namespace {

constexpr int kColumns = 16;            // columns of a panel
constexpr int kRows = 8;                // rows of x that meet a panel in registers
constexpr int64_t kColumnsOfTask = 64;  // columns of C per task, which makes their panels
constexpr int64_t kRowsOfTask = 256;    // rows of C per task; each task makes its panels again
constexpr int64_t kGroup = 4;           // bytes that one instruction sums up
constexpr int64_t kBlockBytes = kColumns * kQuantBlock;

// A panel: for each block, eight groups of four bytes of every column; then the scales of all blocks, then, in q4m, their zeros.
struct Panel {
  std::byte* bytes;
  float *scales, *zeros;
  Panel(std::byte* at, int64_t blocks)
      : bytes(at),
        scales(reinterpret_cast<float*>(at + blocks * kBlockBytes)),
        zeros(scales + blocks * kColumns) {}
};
bool has_zeros(WeightFormat format) { return format == WeightFormat::kQ4m; }
int64_t bytes_of_panel(WeightFormat format, int64_t blocks) {
  return blocks * (kBlockBytes + kColumns * (has_zeros(format) ? 8 : 4));
}

// A quantized row of x: its bytes, the scales of its blocks, and the initial value of each block's sum, which corrects for the
// offset that makes weights unsigned; for weights with zeros the sum of the block's bytes instead.
struct RowOfX {
  const std::byte* bytes;
  const float* scales;
  const int32_t* begins;
  RowOfX(const std::byte* row, int64_t k)
      : bytes(row),
        scales(reinterpret_cast<const float*>(row + k)),
        begins(reinterpret_cast<const int32_t*>(scales + k / kQuantBlock)) {}
};
int64_t bytes_of_row(int64_t k) { return round_up(k + k / kQuantBlock * 8, kAlignment); }

// Returns the four bytes of group `group` of a block of weights, made unsigned.
uint32_t group_of(WeightFormat format, const std::byte* block, int group) {
  uint32_t word;
  if (format == WeightFormat::kQ8) {
    std::memcpy(&word, block + group * kGroup, kGroup);
    return word ^ 0x80808080u;
  }
  std::memcpy(&word, block + group % 4 * kGroup, kGroup);
  return (group < 4 ? word : word >> 4) & 0x0f0f0f0fu;
}

// Fills a panel with `columns` columns, beginning at `first`; columns beyond them are zeros.
void make_panel(const PanelProblem& p, const PanelOperands& operands, int64_t first, int64_t columns,
                Panel panel) {
  const int64_t blocks = p.k / kQuantBlock, bytes = quant_block_bytes(p.format);
  const auto* quants = static_cast<const std::byte*>(operands.quants) + first * blocks * bytes;
  const auto* words = static_cast<const uint16_t*>(operands.scales) + first * blocks;
  for (int64_t block = 0; block < blocks; ++block) {
    auto* to = reinterpret_cast<uint32_t*>(panel.bytes + block * kBlockBytes);
    for (int64_t column = 0; column < kColumns; ++column) {
      const bool is_there = column < columns;
      const std::byte* from = quants + (column * blocks + block) * bytes;
      for (int group = 0; group < kQuantBlock / kGroup; ++group)
        to[group * kColumns + column] = is_there ? group_of(p.format, from, group) : 0;
      const uint16_t word = is_there ? words[column * blocks + block] : 0;
      f16 half;
      half.bits = word;
      if (has_zeros(p.format)) {
        const Q4mGrid grid(word);
        panel.scales[block * kColumns + column] = grid.scale;
        panel.zeros[block * kColumns + column] = grid.zero;
      } else {
        panel.scales[block * kColumns + column] = static_cast<float>(half);
      }
    }
  }
}

#if defined(__x86_64__)

// sums[r][column] = row r of x times that column, for kRows rows.
template <bool has_zeros>
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))) void multiply(
    int64_t k, const std::byte* x, int64_t stride, const Panel& panel, float* sums, int64_t sum_stride) {
  __m512 sum[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sum[r] = _mm512_setzero_ps();
  const int64_t blocks = k / kQuantBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    const std::byte* w = panel.bytes + block * kBlockBytes;
    __m512i dots[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
      dots[r] =
          has_zeros ? _mm512_setzero_si512() : _mm512_set1_epi32(RowOfX(x + r * stride, k).begins[block]);
#pragma GCC unroll 8
    for (int group = 0; group < kQuantBlock / kGroup; ++group) {
      const __m512i weights = _mm512_load_si512(w + group * 64);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int32_t word;
        std::memcpy(&word, x + r * stride + block * kQuantBlock + group * kGroup, sizeof(word));
        dots[r] = _mm512_dpbusd_epi32(dots[r], weights, _mm512_set1_epi32(word));
      }
    }
    const __m512 scales = _mm512_load_ps(panel.scales + block * kColumns);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const RowOfX of_x(x + r * stride, k);
      const __m512 factor = _mm512_mul_ps(scales, _mm512_set1_ps(of_x.scales[block]));
      __m512 dot = _mm512_cvtepi32_ps(dots[r]);
      if constexpr (has_zeros)
        dot = _mm512_fnmadd_ps(_mm512_load_ps(panel.zeros + block * kColumns),
                               _mm512_set1_ps(static_cast<float>(of_x.begins[block])), dot);
      sum[r] = _mm512_fmadd_ps(dot, factor, sum[r]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(sums + r * sum_stride, sum[r]);
}

#else

template <bool has_zeros>
void multiply(int64_t, const std::byte*, int64_t, const Panel&, float*, int64_t) {}

#endif

// Returns minus the sum of a block's quants of x times the offset of the weights, which is 128 for q8 and 8 for q4; for weights
// with zeros, the sum.
int32_t begin_of(WeightFormat format, const std::byte* quants) {
  int32_t sum = 0;
  for (int i = 0; i < kQuantBlock; ++i) sum += static_cast<int8_t>(quants[i]);
  if (has_zeros(format)) return sum;
  return sum * -(format == WeightFormat::kQ8 ? 128 : kQ4Zero);
}

void finish_row(const PanelProblem& p, std::byte* row) {
  const RowOfX x(row, p.k);
  auto* begins = const_cast<int32_t*>(x.begins);
  for (int64_t block = 0; block < p.k / kQuantBlock; ++block)
    begins[block] = begin_of(p.format, row + block * kQuantBlock);
}

}  // namespace

bool has_quantized_panels() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

QuantizedPanels::QuantizedPanels(const PanelProblem& problem)
    : p_(problem),
      epilogue_(epilogue_function(DType::f32, problem.out)),
      row_chunks_(ceil_div(problem.m, kRowsOfTask)),
      column_chunks_(ceil_div(problem.n, kColumnsOfTask)) {}

int64_t QuantizedPanels::panel_bytes() const {
  return kColumnsOfTask / kColumns * bytes_of_panel(p_.format, p_.k / kQuantBlock);
}
int64_t QuantizedPanels::x_bytes() const { return round_up(p_.m, kRows) * bytes_of_row(p_.k); }

int64_t QuantizedPanels::scratch_bytes() const {
  const CheckedSize x = CheckedSize(round_up(p_.m, kRows)) * bytes_of_row(p_.k);
  return (x + TaskScratch::bytes_for(tasks(), panel_bytes())).value();
}

// Returns task `index`. The index runs over chunks of columns first, so that neighboring tasks read the same rows of x.
QuantizedPanels::Task QuantizedPanels::task(int64_t index) const {
  const int64_t row = index / column_chunks_ * kRowsOfTask, column = index % column_chunks_ * kColumnsOfTask;
  return {row, std::min(kRowsOfTask, p_.m - row), column, std::min(kColumnsOfTask, p_.n - column)};
}

void QuantizedPanels::run(const PanelOperands& operands, std::byte* scratch) const {
  const auto width = static_cast<int64_t>(size_of(p_.dtype));
  const auto quantize = activation_quantizer(p_.dtype);
  parallel_ranges(round_up(p_.m, kRows), 8, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      std::byte* to = scratch + row * bytes_of_row(p_.k);
      if (row >= p_.m) {
        std::memset(to, 0, static_cast<size_t>(bytes_of_row(p_.k)));
        continue;
      }
      quantize(static_cast<const std::byte*>(operands.x) + row * p_.k * width, p_.k,
               reinterpret_cast<int8_t*>(to), reinterpret_cast<float*>(to + p_.k));
      finish_row(p_, to);
    }
  });
  TaskScratch task_scratch(scratch + x_bytes(), tasks(), panel_bytes());
  parallel_chunks(tasks(), [&](int64_t index) {
    task_scratch.with([&](std::byte* panels) { compute(operands, scratch, task(index), panels); });
  });
}

void QuantizedPanels::compute(const PanelOperands& operands, const std::byte* x, const Task& task,
                              std::byte* panels) const {
  const int64_t blocks = p_.k / kQuantBlock, count = ceil_div(task.columns, kColumns),
                width = static_cast<int64_t>(size_of(p_.out));
  for (int64_t i = 0; i < count; ++i)
    make_panel(p_, operands, task.first_column + i * kColumns, task.columns - i * kColumns,
               Panel(panels + i * bytes_of_panel(p_.format, blocks), blocks));
  alignas(kAlignment) float bias[kColumnsOfTask], sums[kRows][kColumnsOfTask];
  if (operands.bias) convert_bias(operands.bias, p_.dtype, task.first_column, task.columns, DType::f32, bias);
  for (int64_t row = task.first_row; row < task.first_row + task.rows; row += kRows) {
    for (int64_t i = 0; i < count; ++i)
      (has_zeros(p_.format) ? multiply<true>
                            : multiply<false>)(p_.k, x + row * bytes_of_row(p_.k), bytes_of_row(p_.k),
                                               Panel(panels + i * bytes_of_panel(p_.format, blocks), blocks),
                                               &sums[0][i * kColumns], kColumnsOfTask);
    for (int64_t r = 0; r < std::min<int64_t>(kRows, p_.m - row); ++r) {
      const int64_t at = ((row + r) * p_.n + task.first_column) * width;
      epilogue_({sums[r], operands.bias ? bias : nullptr, static_cast<std::byte*>(operands.c) + at,
                 task.columns, 1, p_.activation, advance(operands.addend, at)});
    }
  }
}

}  // namespace genesis::cpu
