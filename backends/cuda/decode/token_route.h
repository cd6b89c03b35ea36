// Chooses a token's experts within a megakernel. The producer warp of each block chooses them for itself, from the logits of the
// router's product: it has to know them before it can ask for their weights.
#pragma once

#include "backends/cuda/decode/megakernel_kit.h"

namespace genesis::cuda {

// Waits for the logits of a token. Returns the lane's choice and its factor.
template <int kEach>
__device__ __forceinline__ int choose_of_logits(const VectorOperand& logits, const RouteRule& rule,
                                                uint32_t tags, float& factor) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const uint32_t tag = tags + logits.tag;
  TaggedWord words[kEach];
  bool all;
  do {
    all = true;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (i * kLanes + lane < rule.experts) words[i] = load_word(logits.words + i * kLanes + lane);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (i * kLanes + lane < rule.experts) all = all && words[i].y == tag;
  } while (!all);
  __syncwarp();
  float scores[kEach], score = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    scores[i] = i * kLanes + lane < rule.experts ? __uint_as_float(words[i].x) : -INFINITY;
  make_scores(rule, scores);
  uint32_t keys[kEach];
  make_keys(rule, scores, keys);
  const int expert = choose_experts(rule, keys, scores, score);
  factor = route_factor(rule, score);
  return expert;
}

// The experts that a producer warp has chosen last: lane j has choice j.
struct TokenRoute {
  int expert = 0;
  uint32_t tags = 0;
  bool knows_run = false;

  // Chooses the experts of the mixture whose products are instructions i and i + 1, unless the block has no share in them: its
  // consumers may then have ended, and the number of the run may have changed.
  __device__ __forceinline__ void choose(const MegakernelProgram& program, const BlockShare* shares, int i,
                                         MegakernelShared& shared) {
    if (shares[i].first_unit == shares[i].end_unit && shares[i + 1].first_unit == shares[i + 1].end_unit)
      return;
    const Instruction& s = program.instructions[i];
    const VectorOperand logits = s.logits;
    const RouteRule rule = s.rule;
    if (!knows_run) {
      pdl_wait();
      tags = *program.run * kTags;
      knows_run = true;
    }
    float factor = 0;
    expert = rule.experts <= 4 * kLanes ? choose_of_logits<4>(logits, rule, tags, factor)
                                        : choose_of_logits<kMaxRouted / kLanes>(logits, rule, tags, factor);
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    if (lane < rule.k) shared.factors[lane] = factor;
    __threadfence_block();
    __syncwarp();
    if (lane == 0) *const_cast<volatile int*>(&shared.routed) = i + 1;
  }
};

}  // namespace genesis::cuda
