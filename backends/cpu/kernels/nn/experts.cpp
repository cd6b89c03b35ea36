// sort_groups, and plain loops for the ops that passes create on devices whose own kernels compute them at once: route, experts.
#include "schema/ops/nn/grouped_matmul.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "backends/cpu/gemm/row_groups.h"
#include "backends/cpu/kernels.h"
#include "schema/encoding/quantized_formats.h"

namespace genesis::cpu {
namespace {

// --- sort_groups: counts the pairs of each group, then gives each pair the next place of its group

struct SortedViews {
  const TensorView &rows, &sorted, &places, &offsets;
};

// Writes the outputs for ids, row by row; `chosen` of them are a row. An id that cannot be is reported and counts as 0.
void sort_ids(const int64_t* ids, int64_t pairs, int64_t chosen, const SortedViews& to, Fault* fault) {
  const int64_t groups = to.offsets.numel() - 1;
  auto* offsets = to.offsets.as<int64_t>();
  const auto id_of = [&](int64_t pair) { return ids[pair] >= 0 && ids[pair] < groups ? ids[pair] : 0; };
  std::fill(offsets, offsets + groups + 1, 0);
  for (int64_t pair = 0; pair < pairs; ++pair) {
    if (ids[pair] < 0 || ids[pair] >= groups) fault->report(ids[pair], groups);
    if (groups > 0) ++offsets[id_of(pair) + 1];
  }
  if (groups == 0) return;
  std::partial_sum(offsets, offsets + groups + 1, offsets);
  // The first place of a group moves on with each pair, which leaves the first places of the groups behind.
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t id = id_of(pair), place = offsets[id]++;
    to.rows.as<int64_t>()[place] = pair / chosen;
    to.sorted.as<int64_t>()[place] = id;
    to.places.as<int64_t>()[pair] = place;
  }
  std::copy_backward(offsets, offsets + groups, offsets + groups + 1);
  offsets[0] = 0;
}

void run_sort_groups(const KernelContext& c) {
  const TensorView& ids = c.input(0);
  sort_ids(ids.as<const int64_t>(), ids.numel(), ids.dim(-1),
           {c.output(0), c.output(1), c.output(2), c.output(3)}, c.fault);
}

// --- route

// Returns true if a score is before another one: NaN is the greatest, and NaNs are equal.
bool is_greater(float a, float b) {
  return std::pair(std::isnan(a), std::isnan(a) ? 0 : a) > std::pair(std::isnan(b), std::isnan(b) ? 0 : b);
}

void softmax_of(float* x, int64_t n) {
  const float greatest = *std::max_element(x, x + n);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - greatest);
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

// Orders places of scores: the greatest first, equal ones in the order of their places.
auto by_score(const float* scores) {
  return [scores](int64_t a, int64_t b) {
    return is_greater(scores[a], scores[b]) || (a < b && !is_greater(scores[b], scores[a]));
  };
}

// Memory for the choice of a row.
struct RouteScratch {
  int64_t* order;          // a number for each expert
  float *scores, *wanted;  // the score of each expert, and what is compared
  float* sums;             // a number for each group
};

// Replaces what is wanted of experts outside of the best groups by -inf.
void keep_best_groups(const ops::Route& op, int64_t experts, const RouteScratch& s) {
  const int64_t each = experts / op.groups;
  for (int64_t g = 0; g < op.groups; ++g) {
    int64_t* order = s.order + g * each;
    std::iota(order, order + each, g * each);
    std::partial_sort(order, order + op.best_of_group, order + each, by_score(s.wanted));
    s.sums[g] = 0;
    for (int64_t i = 0; i < op.best_of_group; ++i) s.sums[g] += s.wanted[order[i]];
  }
  std::iota(s.order, s.order + op.groups, int64_t{0});
  std::partial_sort(s.order, s.order + op.chosen_groups, s.order + op.groups, by_score(s.sums));
  for (int64_t i = op.chosen_groups; i < op.groups; ++i)
    std::fill_n(s.wanted + s.order[i] * each, each, -std::numeric_limits<float>::infinity());
}

// Chooses the experts of a row whose logits are in s.scores: the first k numbers of s.order. Writes their factors.
void choose(const ops::Route& op, const float* bias, int64_t experts, const RouteScratch& s, float* factors) {
  if (op.scores == RouteScores::kSoftmax) softmax_of(s.scores, experts);
  if (op.scores == RouteScores::kSigmoid)
    for (int64_t i = 0; i < experts; ++i) s.scores[i] = 1 / (1 + std::exp(-s.scores[i]));
  for (int64_t i = 0; i < experts; ++i) s.wanted[i] = bias ? s.scores[i] + bias[i] : s.scores[i];
  if (op.groups > 1) keep_best_groups(op, experts, s);
  std::iota(s.order, s.order + experts, int64_t{0});
  std::partial_sort(s.order, s.order + op.k, s.order + experts, by_score(s.wanted));
  for (int64_t i = 0; i < op.k; ++i) factors[i] = s.scores[s.order[i]];
  if (op.scores == RouteScores::kSoftmaxOfChosen) softmax_of(factors, op.k);
  const float sum = std::accumulate(factors, factors + op.k, static_cast<float>(op.least_sum));
  const float by = static_cast<float>(op.factor);
  for (int64_t i = 0; i < op.k; ++i) factors[i] = (op.normalized ? factors[i] / sum : factors[i]) * by;
}

// The scratch memory holds the chosen experts, then the numbers of RouteScratch, of which no expert has more than 20 bytes.
int64_t route_scratch(const KernelQuery& query) {
  const Shape& logits = query.inputs[0].shape;
  return query.outputs[1].bytes() + 20 * logits[logits.rank() - 1].value();
}

void run_route(const KernelContext& c) {
  const auto& op = c.attributes<ops::Route>();
  const TensorView& logits = c.input(0);
  const int64_t experts = logits.dim(-1), rows = logits.numel() / experts;
  auto *ids = reinterpret_cast<int64_t*>(c.scratch), *order = ids + rows * op.k;
  auto* scores = reinterpret_cast<float*>(order + experts);
  const RouteScratch s = {order, scores, scores + experts, scores + 2 * experts};
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(logits.as<const float>() + row * experts, experts, scores);
    choose(op, c.num_inputs() > 1 ? c.input(1).as<const float>() : nullptr, experts, s,
           c.output(0).as<float>() + row * op.k);
    std::copy_n(order, op.k, ids + row * op.k);
  }
  sort_ids(ids, rows * op.k, op.k, {c.output(1), c.output(2), c.output(3), c.output(4)}, c.fault);
}

// --- experts

// Decodes rows of weights [..., k] into numbers of T.
template <class T>
struct WeightRows {
  const TensorView &weights, *scales;
  WeightFormat format;
  T* decoded;  // k numbers
  int64_t k;

  const T* row(int64_t at) const {
    if (format == WeightFormat::kPlain) return weights.as<const T>() + at * k;
    const StateFormat& of = quantized_format(format, weights_dtype());
    of.decode({weights.as<const std::byte>() + of.part_bytes(0, at * k),
               scales->as<const std::byte>() + of.part_bytes(1, at * k)},
              k, reinterpret_cast<std::byte*>(decoded));
    return decoded;
  }
  double dot(int64_t at, const T* x) const {
    const T* w = row(at);
    double sum = 0;
    for (int64_t p = 0; p < k; ++p) sum += static_cast<double>(w[p]) * static_cast<double>(x[p]);
    return sum;
  }
  static DType weights_dtype() { return dtype_of<T>(); }
};

double gated(const ops::Experts& op, double gate, double up) {
  if (op.activation == ExpertActivation::kSwiglu) return gate / (1 + std::exp(-gate)) * up;
  const auto at_most = [](double x, double limit) { return x > limit ? limit : x; };  // NaN stays
  const auto at_least = [](double x, double limit) { return x < limit ? limit : x; };
  const double h = at_most(gate, op.limit), v = at_most(at_least(up, -op.limit), op.limit);
  return h / (1 + std::exp(-op.slope * h)) * (v + 1);
}

// A row of decoded weights, then the numbers between the products and the sums of a row.
int64_t experts_scratch(const KernelQuery& query) {
  const auto length = [&](int i, int axis) {
    return query.inputs[static_cast<size_t>(i)].shape[axis].value();
  };
  const TensorType& x = query.inputs[ops::Experts::kX];
  const int64_t n = length(ops::Experts::kGate, 1);
  return (std::max(n, x.shape[x.shape.rank() - 1].value()) + n) * 8 + 8 * length(ops::Experts::kDown, 1) + 64;
}

template <class T>
class ExpertLoops {
 public:
  explicit ExpertLoops(const KernelContext& c)
      : c_(c),
        op_(c.attributes<ops::Experts>()),
        n_(c.input(Op::kGate).dim(1)),
        k_(c.input(Op::kX).dim(-1)),
        hidden_(c.output().dim(-1)) {
    sums_ = reinterpret_cast<double*>(c.scratch);
    between_ = reinterpret_cast<T*>(sums_ + hidden_);
    decoded_ = between_ + n_;
  }

  void run() const {
    const TensorView& places = c_.input(Op::kPlaces);
    const int64_t chosen = places.dim(-1), groups = c_.input(Op::kGate).dim(0);
    const int64_t* offsets = checked_offsets(c_.input(Op::kOffsets), places.numel(), c_.fault);
    if (!offsets) return clear_other_rows(nullptr, groups, c_.output());
    for (int64_t row = 0; row < c_.output().numel() / std::max<int64_t>(1, hidden_); ++row) {
      for (int64_t j = 0; j < hidden_; ++j)
        sums_[j] =
            op_.has_addend ? static_cast<double>(c_.input(Op::kAddend).as<const T>()[row * hidden_ + j]) : 0;
      for (int64_t i = row * chosen; i < (row + 1) * chosen; ++i) {
        const int64_t place = places.as<const int64_t>()[i];
        if (place < 0 || place >= places.numel()) c_.fault->report(place, places.numel());
        const int64_t expert = std::upper_bound(offsets, offsets + groups + 1, place) - offsets - 1;
        if (expert >= 0 && expert < groups)
          add_pair(place, expert, c_.input(Op::kFactors).as<const float>()[i]);
      }
      for (int64_t j = 0; j < hidden_; ++j) c_.output().as<T>()[row * hidden_ + j] = static_cast<T>(sums_[j]);
    }
  }

 private:
  using Op = ops::Experts;
  WeightRows<T> weights(int input, int scales, WeightFormat format, int64_t k) const {
    const bool plain = format == WeightFormat::kPlain;
    return {c_.input(input), plain ? nullptr : &c_.input(scales), format, decoded_, k};
  }
  void add_pair(int64_t place, int64_t expert, float factor) const {
    const TensorView& all = c_.input(Op::kX);
    const int64_t rows =
        std::accumulate(all.dims.begin(), all.dims.begin() + all.rank - 1, int64_t{1}, std::multiplies<>());
    const int64_t row = c_.input(Op::kRows).as<const int64_t>()[place];
    if (row < 0 || row >= rows) return c_.fault->report(row, rows);
    const T* x = c_.input(Op::kX).as<const T>() + row * k_;
    const auto gate = weights(Op::kGate, op_.scales(), op_.format, k_),
               up = weights(Op::kUp, op_.scales() + 1, op_.format, k_),
               down = weights(Op::kDown, op_.down_scales(), op_.down_format, n_);
    for (int64_t j = expert * n_; j < (expert + 1) * n_; ++j)
      between_[j - expert * n_] =
          static_cast<T>(gated(op_, gate.dot(j, x) + bias(0, j), up.dot(j, x) + bias(1, j)));
    for (int64_t j = 0; j < hidden_; ++j) {
      const int64_t line = expert * hidden_ + j;
      sums_[j] += factor * (down.dot(line, between_) + bias(2, line));
    }
  }
  // The bias of a line of gate (0), up (1) or down (2).
  double bias(int which, int64_t line) const {
    return op_.has_biases ? static_cast<double>(c_.input(op_.biases() + which).as<const T>()[line]) : 0;
  }

  const KernelContext& c_;
  const Op& op_;
  int64_t n_, k_, hidden_;
  double* sums_;
  T *between_, *decoded_;
};

void run_experts(const KernelContext& c) {
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>) ExpertLoops<T>(c).run();
  });
}

constexpr OpKernel kKernels[] = {
    {"sort_groups", {.name = "counts", .run = run_sort_groups}},
    {"route", {.name = "plain", .run = run_route, .scratch_bytes = route_scratch, .decomposed = true}},
    {"experts", {.name = "plain", .run = run_experts, .scratch_bytes = experts_scratch, .decomposed = true}}};

}  // namespace

std::span<const OpKernel> experts_kernels() { return kKernels; }

}  // namespace genesis::cpu
