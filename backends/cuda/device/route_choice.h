// The choice of a row's experts by one warp: scores of logits, the greatest of them, and the factors of the chosen ones. Used by
// the kernels of route and by the megakernel.
#pragma once

#include "schema/ops/nn/grouped_matmul.h"

#ifdef __CUDACC__
#include "backends/cuda/device/exponential.h"
#include "backends/cuda/device/lane_moves.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/warp_greatest.h"
#endif

namespace genesis::cuda {

// Says how experts are chosen: the attributes of ops::Route and the number of experts.
struct RouteRule {
  const float* bias = nullptr;  // [experts]: is added to the scores for the choice only; null: none
  int32_t experts = 0, k = 0;
  RouteScores scores = RouteScores::kSoftmax;
  bool normalized = false;
  uint8_t groups = 1, chosen_groups = 1;
  float least_sum = 0, factor = 1;
  int32_t best_of_group = 1;
};

inline RouteRule route_rule(const ops::Route& op, int64_t experts) {
  return {.experts = static_cast<int32_t>(experts),
          .k = static_cast<int32_t>(op.k),
          .scores = op.scores,
          .normalized = op.normalized,
          .groups = static_cast<uint8_t>(op.groups),
          .chosen_groups = static_cast<uint8_t>(op.chosen_groups),
          .least_sum = static_cast<float>(op.least_sum),
          .factor = static_cast<float>(op.factor),
          .best_of_group = static_cast<int32_t>(op.best_of_group)};
}

#ifdef __CUDACC__

inline constexpr int kMaxNumbered = 1024;  // experts

// Maps a score to an unsigned number in the same order: -0 equals 0, NaN is the greatest. No score becomes 0.
__device__ __forceinline__ uint32_t score_key(float x) {
  if (x != x) return ~0u;
  const uint32_t bits = __float_as_uint(x == 0 ? 0.0f : x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float score_of(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// Returns the factor of a lane's choice: lane j of a warp, for j < k, has the score of choice j.
__device__ __forceinline__ float route_factor(const RouteRule& rule, float score) {
  const bool has = static_cast<int>(threadIdx.x) % kLanes < rule.k;
  if (rule.scores == RouteScores::kSoftmaxOfChosen) {
    const float greatest = reduce_lanes(has ? score : -INFINITY, kLanes, Max{});
    const float power = has ? exponential<float>(score - greatest) : 0;
    score = power / warp_sum(power);
  }
  if (rule.normalized) score /= warp_sum(has ? score : 0.0f) + rule.least_sum;
  return score * rule.factor;
}

// Makes scores of a row's logits: lane l of a warp has those of the experts l, l + 32, ...; there are -inf behind the last one.
template <int kEach>
__device__ __forceinline__ void make_scores(const RouteRule& rule, float (&scores)[kEach]) {
  if (rule.scores == RouteScores::kSigmoid)
#pragma unroll
    for (int i = 0; i < kEach; ++i) scores[i] = 1 / (1 + exponential<float>(-scores[i]));
  if (rule.scores != RouteScores::kSoftmax) return;
  float greatest = scores[0], sum = 0;
#pragma unroll
  for (int i = 1; i < kEach; ++i) greatest = fmaxf(greatest, scores[i]);
  greatest = reduce_lanes(greatest, kLanes, Max{});
#pragma unroll
  for (int i = 0; i < kEach; ++i) sum += scores[i] = exponential<float>(scores[i] - greatest);
  sum = warp_sum(sum);
#pragma unroll
  for (int i = 0; i < kEach; ++i) scores[i] /= sum;
}

// Makes the keys by which experts are chosen: those of their scores plus the bias, 0 behind the last expert.
template <int kEach>
__device__ __forceinline__ void make_keys(const RouteRule& rule, const float (&scores)[kEach],
                                          uint32_t (&keys)[kEach]) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = i * kLanes + static_cast<int>(threadIdx.x) % kLanes;
    keys[i] = expert >= rule.experts ? 0 : score_key(rule.bias ? scores[i] + rule.bias[expert] : scores[i]);
  }
}

// Returns the sum of the greatest scores of `each` experts from `first` on. All lanes get it.
template <int kEach>
__device__ __forceinline__ float sum_of_best(int count, int first, int each, const uint32_t (&keys)[kEach]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  uint32_t left[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    left[i] = static_cast<uint32_t>(i * kLanes + lane - first) < static_cast<uint32_t>(each) ? keys[i] : 0;
  float sum = 0;
#pragma unroll 1
  for (int j = 0; j < count; ++j) {
    uint32_t key = left[0];
#pragma unroll
    for (int i = 1; i < kEach; ++i) key = max(key, left[i]);
    const uint32_t greatest = warp_greatest(key);
    sum += score_of(greatest);
    bool removes = lane == __ffs(static_cast<int>(__ballot_sync(~0u, key == greatest))) - 1;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (removes && left[i] == greatest) left[i] = 0, removes = false;
  }
  return sum;
}

// Gives experts outside of a row's best groups the key of -inf.
template <int kEach>
__device__ __forceinline__ void keep_best_groups(const RouteRule& rule, uint32_t (&keys)[kEach]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes, each = rule.experts / rule.groups;
  uint32_t mine = 0, best = 0;  // lane g has the key of group g; a bit for each group that is kept
#pragma unroll 1
  for (int g = 0; g < rule.groups; ++g) {
    const float sum = sum_of_best(rule.best_of_group, g * each, each, keys);
    if (lane == g) mine = score_key(sum);
  }
#pragma unroll 1
  for (int j = 0; j < rule.chosen_groups; ++j) {
    const uint32_t greatest = warp_greatest(mine);
    const int group = __ffs(static_cast<int>(__ballot_sync(~0u, mine == greatest))) - 1;
    best |= 1u << group;
    if (lane == group) mine = 0;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (keys[i] != 0 && !(best >> ((i * kLanes + lane) / each) & 1)) keys[i] = score_key(-INFINITY);
}

// A warp chooses the experts with the greatest keys: lane j gets choice j, and its score. Equal keys are taken in the order of the
// experts.
template <int kEach>
__device__ __forceinline__ int choose_experts(const RouteRule& rule, uint32_t (&keys)[kEach],
                                              const float (&scores)[kEach], float& score) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  int mine = 0;
#pragma unroll 1
  for (int j = 0; j < rule.k; ++j) {
    uint32_t key = keys[kEach - 1];
    float own = scores[kEach - 1];
    int expert = (kEach - 1) * kLanes + lane;
#pragma unroll
    for (int i = kEach - 2; i >= 0; --i)
      if (keys[i] >= key) key = keys[i], own = scores[i], expert = i * kLanes + lane;
    const uint32_t greatest = warp_greatest(key);
    uint32_t owners = __ballot_sync(~0u, key == greatest);
    if ((owners & (owners - 1)) != 0) {  // equal scores: the first expert
      const auto nearness = static_cast<uint32_t>(kMaxNumbered - expert);
      owners = __ballot_sync(~0u, warp_greatest(key == greatest ? nearness : 0) == nearness);
    }
    const int owner = __ffs(static_cast<int>(owners)) - 1, chosen = from_lane(expert, owner);
    const float its_score = from_lane(own, owner);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (i * kLanes + lane == chosen) keys[i] = 0;
    if (lane == j) mine = chosen, score = its_score;
  }
  return mine;
}

#endif

}  // namespace genesis::cuda
