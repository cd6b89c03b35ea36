// Reference implementations of attention and attention_grad: the formulas as written, in double precision.

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/attention/attention_geometry.h"
#include "backends/cpu/parallel/parallel.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

double read(const std::byte* data, DType dtype, int64_t at) {
  if (dtype == DType::f32)
    return reinterpret_cast<const float*>(data)[at];  // most tensors need no dispatch per element
  return dispatch(
      dtype, [&]<class T>(TypeTag<T>) { return static_cast<double>(reinterpret_cast<const T*>(data)[at]); });
}

void write(std::byte* data, DType dtype, int64_t at, double value) {
  dispatch(dtype, [&]<class T>(TypeTag<T>) { reinterpret_cast<T*>(data)[at] = static_cast<T>(value); });
}

double at(const HeadRows& rows, int64_t i, int64_t d) {
  return read(rows.data, rows.dtype, i * rows.stride + d);
}

double dot(const HeadRows& a, int64_t i, const HeadRows& b, int64_t j, int64_t size) {
  double sum = 0;
  for (int64_t d = 0; d < size; ++d) sum += at(a, i, d) * at(b, j, d);
  return sum;
}

void write_row(const HeadRows& rows, int64_t i, const double* from, int64_t size) {
  for (int64_t d = 0; d < size; ++d) write(rows.data, rows.dtype, i * rows.stride + d, from[d]);
}

// One query head with its key and value head.
struct Head {
  HeadRows q, k, v;
  VisibleKeys visible;
};

Head head_of(const AttentionGeometry& g, const KernelContext& c, int64_t b, int64_t h) {
  const QkvHeads x = operand_heads(g, c);
  return {x.q.at(b, h), x.k.at(b, h / g.group()), x.v.at(b, h / g.group()), visible_keys_of(g, c, b, h)};
}

double score(const AttentionGeometry& g, const Head& head, int64_t i, int64_t j) {
  if (j < head.visible.begin(i) || j >= head.visible.end(i)) return kMinusInfinity;
  const double x = g.scale * dot(head.q, i, head.k, j, g.size);
  const MaskPlane& mask = head.visible.mask;
  if (!mask.data) return x;
  const double m = read(mask.data, mask.dtype, i * mask.row_stride + j * mask.key_stride);
  return mask.dtype == DType::boolean ? (m != 0 ? x : kMinusInfinity) : x + m;
}

// Writes the attention weights of query i to p and returns their log-sum-exp, -inf if the query sees no key.
double softmax_row(const AttentionGeometry& g, const Head& head, int64_t i, double* p) {
  double max = kMinusInfinity, sum = 0;
  for (int64_t j = 0; j < g.keys; ++j) {
    p[j] = score(g, head, i, j);
    if (p[j] > max || p[j] != p[j]) max = p[j];
  }
  for (int64_t j = 0; j < g.keys; ++j) sum += p[j] = max == kMinusInfinity ? 0 : std::exp(p[j] - max);
  if (max == kMinusInfinity) return max;
  for (int64_t j = 0; j < g.keys; ++j) p[j] /= sum;
  return max + std::log(sum);
}

int64_t forward_doubles(const AttentionGeometry& g) { return (CheckedSize(g.keys) + g.v_size).value(); }

void forward_head(const AttentionGeometry& g, const KernelContext& c, int64_t index, double* scratch) {
  const int64_t b = index / g.heads, h = index % g.heads;
  const Head head = head_of(g, c, b, h);
  const HeadRows y = result_heads(g, c.output()).at(b, h);
  double *p = scratch, *row = scratch + g.keys;
  for (int64_t i = 0; i < g.queries; ++i) {
    const double lse = softmax_row(g, head, i, p);
    std::fill(row, row + g.v_size, 0.0);
    for (int64_t j = head.visible.begin(i); j < head.visible.end(i); ++j)
      for (int64_t d = 0; d < g.v_size; ++d) row[d] += p[j] * at(head.v, j, d);
    write_row(y, i, row, g.v_size);
    if (c.outputs.size() > 1) write(c.output(1).as<std::byte>(), c.output(1).dtype, g.lse_row(b, h) + i, lse);
  }
}

int64_t backward_doubles(const AttentionGeometry& g) {
  return (CheckedSize(g.keys) * (CheckedSize(g.size) + g.v_size + 1) + g.size).value();
}

// Writes dq of query i, and adds its contributions to `dk` and `dv`.
void backward_row(const AttentionGeometry& g, const KernelContext& c, const Head& head, int64_t b, int64_t h,
                  int64_t i, double* p, double* dk, double* dv, double* dq) {
  const HeadRows y = result_heads(g, c.input(g.y())).at(b, h), dy = result_heads(g, c.input(g.dy())).at(b, h);
  softmax_row(g, head, i, p);
  const double delta = dot(dy, i, y, i, g.v_size);
  std::fill(dq, dq + g.size, 0.0);
  for (int64_t j = head.visible.begin(i); j < head.visible.end(i); ++j) {
    if (p[j] == 0) continue;
    const double ds = g.scale * p[j] * (dot(dy, i, head.v, j, g.v_size) - delta);
    for (int64_t d = 0; d < g.v_size; ++d) dv[j * g.v_size + d] += p[j] * at(dy, i, d);
    for (int64_t d = 0; d < g.size; ++d) dk[j * g.size + d] += ds * at(head.q, i, d);
    for (int64_t d = 0; d < g.size; ++d) dq[d] += ds * at(head.k, j, d);
  }
  write_row(gradient_heads(g, c).q.at(b, h), i, dq, g.size);
}

void backward_key_head(const AttentionGeometry& g, const KernelContext& c, int64_t index, double* scratch) {
  const int64_t b = index / g.key_heads, key_head = index % g.key_heads;
  double *dk = scratch, *dv = dk + g.keys * g.size, *p = dv + g.keys * g.v_size, *dq = p + g.keys;
  std::fill(dk, p, 0.0);
  for (int64_t h = key_head * g.group(); h < (key_head + 1) * g.group(); ++h) {
    const Head head = head_of(g, c, b, h);
    for (int64_t i = 0; i < g.queries; ++i) backward_row(g, c, head, b, h, i, p, dk, dv, dq);
  }
  const QkvHeads to = gradient_heads(g, c);
  for (int64_t j = 0; j < g.keys; ++j) {
    write_row(to.k.at(b, key_head), j, dk + j * g.size, g.size);
    write_row(to.v.at(b, key_head), j, dv + j * g.v_size, g.v_size);
  }
}

std::shared_ptr<const void> prepare_reference_attention(const KernelQuery& query) {
  return std::make_shared<AttentionGeometry>(attention_geometry(query));
}

int64_t forward_scratch(const KernelQuery& query) {
  const AttentionGeometry g = attention_geometry(query);
  return (CheckedSize(forward_doubles(g)) * g.batch * g.heads * sizeof(double)).value();
}

int64_t backward_scratch(const KernelQuery& query) {
  const AttentionGeometry g = attention_geometry(query);
  return (CheckedSize(backward_doubles(g)) * g.batch * g.key_heads * sizeof(double)).value();
}

void run_forward(const KernelContext& c) {
  const auto& g = c.prepared<AttentionGeometry>();
  check_key_range(g, c);
  auto* scratch = reinterpret_cast<double*>(c.scratch);
  parallel_chunks(g.batch * g.heads,
                  [&](int64_t index) { forward_head(g, c, index, scratch + index * forward_doubles(g)); });
}

void run_backward(const KernelContext& c) {
  const auto& g = c.prepared<AttentionGeometry>();
  check_key_range(g, c);
  auto* scratch = reinterpret_cast<double*>(c.scratch);
  parallel_chunks(g.batch * g.key_heads, [&](int64_t index) {
    backward_key_head(g, c, index, scratch + index * backward_doubles(g));
  });
}

}  // namespace

const KernelImpl kReferenceAttention{.name = "reference",
                                     .run = run_forward,
                                     .scratch_bytes = forward_scratch,
                                     .prepare = prepare_reference_attention};
const KernelImpl kReferenceAttentionGrad{.name = "reference",
                                         .run = run_backward,
                                         .scratch_bytes = backward_scratch,
                                         .prepare = prepare_reference_attention};

}  // namespace genesis::cpu
