#include "backends/cuda/attention/cudnn/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"
#include "schema/core/checked_size.h"
#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

constexpr auto kFloat = CUDNN_DATA_FLOAT;
constexpr int64_t kMinScores = 32 * 32;  // with fewer scores, a plan does not pay off
constexpr int64_t kSpareBytes = int64_t{2} << 20;
// A gradient sums dq in a fixed order if the gradients of all heads' scores may be written to memory, in 16 bits.
// Beyond this size that would cost more memory than it is worth, and dq is summed in the order in which blocks
// finish.
constexpr int64_t kMaxScoreBytes = int64_t{1} << 30;

int64_t padded(int64_t n) { return (n + 127) / 128 * 128; }
int64_t score_bytes(const AttentionShape& s) {
  return (CheckedSize(s.batch) * s.heads * padded(s.queries) * padded(s.keys) * 2).value();
}
bool wants_order(const AttentionShape& s) { return score_bytes(s) <= kMaxScoreBytes; }
// cuDNN has a plan for either order of dq's sums for heads of up to 128 without a window. Elsewhere it may have only one
// of them: the plan that sums in the order of finished blocks is then the second choice.
bool may_lack_order(const AttentionShape& s) { return s.size > 128 || s.v_size > 128 || s.window > 0; }

Dims strides(const HeadSteps& steps) { return {steps.batch, steps.head, steps.row, 1}; }
Dims swapped(const Dims& d) { return {d[0], d[1], d[3], d[2]}; }

// Names of a graph's tensors in memory; 0 if it has no such tensor.
struct Names {
  int64_t q = 0, k = 0, v = 0, y = 0, lse = 0, dy = 0, dq = 0, dk = 0, dv = 0;
  int64_t scale = 0, minus_infinity = 0, one = 0, queries = 0, keys = 0;
  int64_t query_lengths = 0, key_lengths = 0;  // i32 per batch entry, if key_length is data
  int64_t window =
      0;  // i32 if key_length is data; else f32, less the keys that the first query has before it
  int64_t delta = 0, dq_sums = 0;
};

// Builds the operations that forward and backward graphs share.
struct Builder {
  explicit Builder(const AttentionShape& shape, bool dq_in_order = true)
      : s(shape),
        in_order(dq_in_order),
        type(cudnn_type(shape.dtype)),
        scores_dims{s.batch, s.heads, s.queries, s.keys},
        row_dims{s.batch, s.heads, s.queries, 1},
        q_dims{s.batch, s.heads, s.queries, s.size},
        k_dims{s.batch, s.key_heads, s.keys, s.size},
        v_dims{s.batch, s.key_heads, s.keys, s.v_size},
        y_dims{s.batch, s.heads, s.queries, s.v_size} {}

  int64_t scores(cudnnDataType_t dtype = kFloat) {
    return graph.virtual_tensor(dtype, scores_dims, dense(scores_dims));
  }
  int64_t rows() { return graph.virtual_tensor(kFloat, row_dims, dense(row_dims)); }
  int64_t pointwise(cudnnPointwiseMode_t mode, int64_t x, int64_t b = 0) {
    const int64_t y = scores();
    graph.pointwise(mode, x, b, y);
    return y;
  }

  int64_t scaled_scores(int64_t q, int64_t k_transposed) {
    if (s.has_key_length) {
      const Dims dims{s.batch, 1, 1, 1};
      names.query_lengths = graph.tensor(CUDNN_DATA_INT32, dims, {1, 1, 1, 1});
      names.key_lengths = graph.tensor(CUDNN_DATA_INT32, dims, {1, 1, 1, 1});
    }
    const int64_t product = scores();
    graph.matmul(q, k_transposed, product, {names.query_lengths, names.key_lengths, 0});
    names.scale = graph.scalar(kFloat);
    return pointwise(CUDNN_POINTWISE_MUL, product, names.scale);
  }

  int64_t index(int64_t x, int64_t axis, cudnnDataType_t compute) {
    const int64_t y = scores(CUDNN_DATA_INT32);
    graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, x, 0, y, 0, compute, axis);
    return y;
  }
  int64_t compare(cudnnPointwiseMode_t mode, int64_t a, int64_t b) {
    const int64_t y = scores(CUDNN_DATA_BOOLEAN);
    graph.pointwise(mode, a, b, y, 0, CUDNN_DATA_BOOLEAN);
    return y;
  }
  // Returns x where `seen` is true, and -inf elsewhere.
  int64_t select(int64_t x, int64_t seen) {
    if (!names.minus_infinity) names.minus_infinity = graph.scalar(kFloat);
    const int64_t y = scores();
    graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, names.minus_infinity, y, seen);
    return y;
  }

  // Masks the scores of keys beyond the lengths.
  int64_t within_lengths(int64_t x) {
    if (!s.has_key_length) return x;
    const int64_t row = index(x, 2, CUDNN_DATA_INT32), column = index(x, 3, CUDNN_DATA_INT32);
    return select(
        x, compare(CUDNN_POINTWISE_LOGICAL_AND, compare(CUDNN_POINTWISE_CMP_LT, row, names.query_lengths),
                   compare(CUDNN_POINTWISE_CMP_LT, column, names.key_lengths)));
  }
  // Masks the scores unless query + keys - queries >= key, and outside of the window.
  int64_t causal(int64_t x) {
    if (!s.causal) return x;
    int64_t row = index(x, 2, kFloat);
    const int64_t column = index(x, 3, kFloat);
    if (s.has_key_length || s.queries != s.keys) row = shifted(row);
    return in_window(select(x, compare(CUDNN_POINTWISE_CMP_GE, row, column)));
  }
  // Masks the scores unless key + window > query + keys - queries. cuDNN recognizes this order of operations.
  int64_t in_window(int64_t x) {
    if (s.window == 0) return x;
    const int64_t row = index(x, 2, kFloat), column = index(x, 3, kFloat);
    const auto type_of_sum = s.has_key_length ? CUDNN_DATA_INT32 : kFloat;
    names.window = graph.scalar(type_of_sum);
    const auto added = [&](cudnnPointwiseMode_t mode, int64_t to, int64_t amount) {
      const int64_t sum = scores(type_of_sum);
      graph.pointwise(mode, to, amount, sum, 0, type_of_sum, 3);
      return sum;
    };
    int64_t end = added(CUDNN_POINTWISE_ADD, column, names.window);
    if (s.has_key_length)
      end =
          added(CUDNN_POINTWISE_ADD, added(CUDNN_POINTWISE_SUB, end, names.key_lengths), names.query_lengths);
    return select(x, compare(CUDNN_POINTWISE_CMP_GT, end, row));
  }
  int64_t shifted(int64_t row) {
    if (!s.has_key_length) {
      names.keys = graph.scalar(CUDNN_DATA_INT32);
      names.queries = graph.scalar(CUDNN_DATA_INT32);
    }
    const int64_t more = scores(CUDNN_DATA_INT32), less = scores(CUDNN_DATA_INT32);
    graph.pointwise(CUDNN_POINTWISE_ADD, row, s.has_key_length ? names.key_lengths : names.keys, more, 0,
                    CUDNN_DATA_INT32, 3);
    graph.pointwise(CUDNN_POINTWISE_SUB, more, s.has_key_length ? names.query_lengths : names.queries, less,
                    0, CUDNN_DATA_INT32, 3);
    return less;
  }

  const AttentionShape& s;
  bool in_order;  // a gradient sums dq in a fixed order
  cudnnDataType_t type;
  Dims scores_dims, row_dims, q_dims, k_dims, v_dims, y_dims;
  CudnnGraph graph;
  Names names;
};

void build_forward(Builder& b, bool with_lse) {
  CudnnGraph& g = b.graph;
  Names& n = b.names;
  n.q = g.tensor(b.type, b.q_dims, strides(b.s.q));
  n.k = g.tensor(b.type, swapped(b.k_dims), swapped(strides(b.s.k)));
  n.v = g.tensor(b.type, b.v_dims, strides(b.s.v));
  n.y = g.tensor(b.type, b.y_dims, strides(b.s.y));
  const int64_t x = b.causal(b.within_lengths(b.scaled_scores(n.q, n.k)));
  const int64_t max = b.rows(), sum = b.rows();
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, x, max);
  const int64_t e = b.pointwise(CUDNN_POINTWISE_EXP, b.pointwise(CUDNN_POINTWISE_SUB, x, max));
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, e, sum);
  // cuDNN recognizes the pattern only with its statistics, even if they are not needed.
  const int64_t log = b.rows(), lse = with_lse ? g.tensor(kFloat, b.row_dims, dense(b.row_dims)) : b.rows();
  g.pointwise(CUDNN_POINTWISE_LOG, sum, 0, log);
  g.pointwise(CUDNN_POINTWISE_ADD, max, log, lse);
  if (with_lse) n.lse = lse;
  const int64_t p = b.scores(b.type);
  g.pointwise(CUDNN_POINTWISE_DIV, e, sum, p);
  g.matmul(p, n.v, n.y, {n.query_lengths, 0, n.key_lengths});
}

// Returns x [.., queries, keys] as [.., keys, queries], in 16 bits.
int64_t transposed(Builder& b, int64_t x) {
  const Dims dims = swapped(b.scores_dims);
  const int64_t y = b.graph.virtual_tensor(b.type, dims, swapped(dense(b.scores_dims)));
  b.graph.reshape(x, y);
  return y;
}

// Computes to = a x, summed over the query heads that share a key head.
void product_per_key_head(Builder& b, int64_t a, int64_t x, int64_t size, int64_t to) {
  if (b.s.heads == b.s.key_heads) return b.graph.matmul(a, x, to);
  const Dims dims{b.s.batch, b.s.heads, b.s.keys, size};
  const int64_t each = b.graph.virtual_tensor(b.type, dims, dense(dims));
  b.graph.matmul(a, x, each);
  b.graph.reduce(CUDNN_REDUCE_TENSOR_ADD, each, to);
}

void build_backward(Builder& b) {
  CudnnGraph& g = b.graph;
  Names& n = b.names;
  const AttentionShape& s = b.s;
  n.q = g.tensor(b.type, b.q_dims, strides(s.q));
  n.k = g.tensor(b.type, swapped(b.k_dims), swapped(strides(s.k)));
  n.v = g.tensor(b.type, swapped(b.v_dims), swapped(strides(s.v)));
  n.y = g.tensor(b.type, b.y_dims, strides(s.y));
  n.dy = g.tensor(b.type, b.y_dims, strides(s.y));
  n.lse = g.tensor(kFloat, b.row_dims, dense(b.row_dims));
  n.dq = g.tensor(b.type, b.q_dims, strides(s.q));
  n.dk = g.tensor(b.type, b.k_dims, strides(s.k));
  n.dv = g.tensor(b.type, b.v_dims, strides(s.v));

  // delta = sum of dy y
  const int64_t products = g.virtual_tensor(kFloat, b.y_dims, dense(b.y_dims)), sums = b.rows();
  g.pointwise(CUDNN_POINTWISE_MUL, n.dy, n.y, products);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  n.one = g.scalar(kFloat);
  n.delta = g.tensor(kFloat, b.row_dims, dense(b.row_dims));
  g.pointwise(CUDNN_POINTWISE_MUL, sums, n.one, n.delta);

  // p = exp(scores - lse); dv = p^T dy
  const int64_t shifted = b.pointwise(CUDNN_POINTWISE_SUB, b.scaled_scores(n.q, n.k), n.lse);
  const int64_t p = b.pointwise(CUDNN_POINTWISE_EXP, b.causal(shifted));
  product_per_key_head(b, transposed(b, p), n.dy, s.v_size, n.dv);

  // ds = p (dy v^T - delta) scale; dk = ds^T q; dq = ds k
  const int64_t dp = b.scores();
  g.matmul(n.dy, n.v, dp);
  const int64_t ds = b.pointwise(
      CUDNN_POINTWISE_MUL, b.pointwise(CUDNN_POINTWISE_MUL, b.pointwise(CUDNN_POINTWISE_SUB, dp, n.delta), p),
      n.scale);
  product_per_key_head(b, transposed(b, ds), n.q, s.size, n.dk);
  const int64_t k = g.virtual_tensor(b.type, b.k_dims, strides(s.k));
  g.reshape(n.k, k);
  if (b.in_order) return g.matmul(ds, k, n.dq);
  n.dq_sums = g.tensor(kFloat, b.q_dims, dense(b.q_dims));
  g.matmul(ds, k, n.dq_sums);
  g.pointwise(CUDNN_POINTWISE_IDENTITY, n.dq_sums, 0, n.dq);
}

int64_t aligned(CheckedSize bytes) { return bytes.rounded_up(256).value(); }
// Rounds the batch up, so that both arrays of lengths start at multiples of 16 bytes.
int64_t padded_batch(const AttentionShape& s) { return (s.batch + 3) / 4 * 4; }
int64_t lengths_bytes(const AttentionShape& s) {
  return s.has_key_length ? aligned(CheckedSize(padded_batch(s)) * 8) : 0;
}
int64_t delta_bytes(const AttentionShape& s) { return aligned(CheckedSize(s.rows()) * 4); }
int64_t dq_sums_bytes(const AttentionShape& s) { return aligned(CheckedSize(s.rows()) * s.size * 4); }

// The workspace that the plan itself may need besides delta and the sums of dq: the scores' gradients, the gradients
// of keys and values per query head, and semaphores.
int64_t backward_limit(const AttentionShape& s, bool in_order) {
  const CheckedSize heads = s.heads == s.key_heads ? 0
                                                   : CheckedSize(s.batch) * s.heads * padded(s.keys) *
                                                         (CheckedSize(s.size) + s.v_size) * 2;
  return (heads + (in_order ? score_bytes(s) : 0) + kSpareBytes).value();
}

class Planned final : public CudnnAttention {
 public:
  Planned(const AttentionShape& shape, Builder& builder, int64_t limit)
      : shape_(shape),
        names_(builder.names),
        plan_(builder.graph.plan(limit)),
        scale_(static_cast<float>(shape.scale)),
        queries_(static_cast<int32_t>(shape.queries)),
        keys_(static_cast<int32_t>(shape.keys)),
        window_(static_cast<int32_t>(shape.window)),
        window_end_(static_cast<float>(shape.window - shape.keys + shape.queries)) {}

  bool run(const AttentionData& d) const override {
    std::vector<std::pair<int64_t, void*>> pointers;
    const auto add = [&](int64_t name, const void* address) {
      if (name) pointers.emplace_back(name, const_cast<void*>(address));
    };
    add(names_.q, d.q);
    add(names_.k, d.k);
    add(names_.v, d.v);
    add(names_.y, d.y);
    add(names_.lse, d.lse);
    add(names_.dy, d.dy);
    add(names_.dq, d.dq);
    add(names_.dk, d.dk);
    add(names_.dv, d.dv);
    add(names_.scale, &scale_);
    add(names_.minus_infinity, &minus_infinity_);
    add(names_.one, &one_);
    add(names_.queries, &queries_);
    add(names_.keys, &keys_);
    add(names_.window, shape_.has_key_length ? static_cast<const void*>(&window_) : &window_end_);
    std::byte* workspace = d.scratch;
    if (names_.key_lengths) {
      auto* lengths = reinterpret_cast<int32_t*>(workspace);
      write_attention_lengths(shape_, d, lengths, lengths + padded_batch(shape_));
      add(names_.query_lengths, lengths);
      add(names_.key_lengths, lengths + padded_batch(shape_));
      workspace += lengths_bytes(shape_);
    }
    if (names_.delta) {
      add(names_.delta, workspace);
      workspace += delta_bytes(shape_);
    }
    if (names_.dq_sums) {
      add(names_.dq_sums, workspace);
      constexpr size_t kClearsBySelf = 90600;
      if (cudnn_version() < kClearsBySelf)
        cudaMemsetAsync(workspace, 0, static_cast<size_t>(dq_sums_bytes(shape_)), d.stream);
      workspace += dq_sums_bytes(shape_);
    }
    return plan_.run(d.stream, pointers, workspace);
  }

 private:
  AttentionShape shape_;
  Names names_;
  CudnnPlan plan_;
  float scale_, one_ = 1, minus_infinity_ = -std::numeric_limits<float>::infinity();
  int32_t queries_, keys_, window_;
  float window_end_;  // see Names::window
};

}  // namespace

std::optional<std::string> cudnn_attention_declines(const AttentionShape& s) {
  if (s.dtype != DType::f16 && s.dtype != DType::bf16) return "it takes f16 and bf16";
  if (s.has_mask || s.has_key_start) return "it takes no mask and no key_start";
  if (s.has_key_length && s.gradient) return "it takes no key_length in a gradient";
  if (s.queries * s.keys < kMinScores || s.batch * s.heads * s.key_heads == 0)
    return "the tiles do small ones";
  constexpr int64_t kMaxSize = 256;
  if (s.size % 8 != 0 || s.v_size % 8 != 0 || s.size > kMaxSize || s.v_size > kMaxSize || s.size == 0 ||
      s.v_size == 0)
    return "it takes head sizes that are multiples of 8, up to 256";
  if (s.causal && s.queries > s.keys) return "some queries see no key";
  return std::nullopt;
}

int64_t cudnn_forward_scratch(const AttentionShape& s) { return lengths_bytes(s) + kSpareBytes; }

namespace {

int64_t backward_scratch(const AttentionShape& s, bool in_order) {
  return (CheckedSize(delta_bytes(s)) + (in_order ? 0 : dq_sums_bytes(s)) + backward_limit(s, in_order))
      .value();
}

}  // namespace

int64_t cudnn_backward_scratch(const AttentionShape& s) {
  const int64_t first = backward_scratch(s, wants_order(s));
  return wants_order(s) && may_lack_order(s) ? std::max(first, backward_scratch(s, false)) : first;
}

namespace {

std::shared_ptr<const CudnnAttention> plan_gradient(const AttentionShape& shape, bool in_order) {
  Builder builder(shape, in_order);
  build_backward(builder);
  return std::make_shared<Planned>(shape, builder, backward_limit(shape, in_order));
}

// Throws Error if cuDNN cannot make the plan.
std::shared_ptr<const CudnnAttention> make_planned(const AttentionShape& shape, bool with_lse) {
  if (!shape.gradient) {
    Builder builder(shape);
    build_forward(builder, with_lse);
    return std::make_shared<Planned>(shape, builder, kSpareBytes);
  }
  if (!wants_order(shape) || !may_lack_order(shape)) return plan_gradient(shape, wants_order(shape));
  try {
    return plan_gradient(shape, true);
  } catch (const Error&) {
    return plan_gradient(shape, false);
  }
}

std::string key_of(const AttentionShape& s, bool with_lse) {
  const int device = current_device(), kind = s.gradient ? 2 : with_lse;
  const auto steps = [](const HeadSteps& x) { return fmt::format("{},{},{}", x.batch, x.head, x.row); };
  return fmt::format("{} {} {} {}x{}x{}x{}x{} {} {} {} {}{} {} {} {} {} {}", device, kind, name_of(s.dtype),
                     s.batch, s.heads, s.key_heads, s.queries, s.keys, s.size, s.v_size, s.scale,
                     s.causal ? 1 : 0, s.has_key_length ? 1 : 0, s.window, steps(s.q), steps(s.k), steps(s.v),
                     steps(s.y));
}

}  // namespace

// Layers have equal shapes, and making a plan takes cuDNN most of a second.
std::shared_ptr<const CudnnAttention> shared_cudnn_attention(const AttentionShape& shape, bool with_lse) {
  static std::mutex mutex;
  // Never destroyed: cuDNN may be unloaded before it at the end of the process.
  static auto& made = *new std::map<std::string, std::shared_ptr<const CudnnAttention>>;
  if (!cudnn().available()) return nullptr;
  const std::lock_guard lock(mutex);
  const std::string key = key_of(shape, with_lse);
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  std::shared_ptr<const CudnnAttention> plan;
  try {
    plan = make_planned(shape, with_lse);
  } catch (const Error&) {  // then our own kernels run it
  }
  return made[key] = plan;
}

}  // namespace genesis::cuda
