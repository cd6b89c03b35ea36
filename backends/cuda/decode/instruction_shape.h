// Tells which steps of a plan can be instructions of a megakernel (megakernel.h), and describes the instruction: one
// row of x times weights, attention of one new token over its caches, the norm of rows of a new token, the choice of its
// experts, or their products. Needs no device.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backends/cuda/device/route_choice.h"
#include "schema/encoding/weight_format.h"
#include "schema/graph/target.h"

namespace genesis::cuda {

struct InstructionShape {
  // kNorm and kRoute are no instructions of their own: those that read their results compute them.
  enum class Kind { kProduct, kAttention, kNorm, kRoute, kMixture };
  static constexpr int kMaxLayers = 4;
  static constexpr int kNone = -1;

  Kind kind = Kind::kProduct;

  // kProduct: y_i = [rms_norm](x) weight_i^T + bias_i, plus an addend; with swiglu silu(y_0) * y_1. The step's inputs
  // are given by their index, or kNone; the weights of all layers have consecutive indices, and so have the biases.
  int64_t k = 0;
  std::vector<int64_t> n;  // rows of each weight
  bool swiglu = false;
  bool wide = false;  // y is f32: only a route reads it as the result of an instruction
  float eps = 0;      // for kNorm too
  int norm = kNone, weight = kNone, scales = kNone, bias = kNone, addend = kNone;
  WeightFormat format = WeightFormat::kPlain;  // the weights' format; plain weights have no scales

  // kRoute: how it chooses. Its bias is input `bias`, if there is one.
  RouteRule rule;

  // kMixture: as in ops::Experts, for one row. n: rows of gate of one expert. Weights are the inputs gate, up and down, in `format` and
  // `down_format`; `scales` is the index of gate's.
  int chosen = 0, experts = 0, down_scales = kNone;
  WeightFormat down_format = WeightFormat::kPlain;

  // kAttention: as in ops::CachedAttention. kNorm: rows of `size` elements.
  int heads = 0, key_heads = 0, size = 0;
  int64_t positions = 0;
  float scale = 1;
  double theta = 0;
  int64_t window = 0;

  // Elements of output i that other instructions may read; caches and the results of a route are not included.
  std::vector<int64_t> elements;
  // Returns true if the step is computed by the instructions that read its result.
  bool is_taken() const { return kind == Kind::kNorm || kind == Kind::kRoute; }
  // Returns the step's inputs that may come from other instructions: x, or q, k and v.
  std::vector<int> vectors() const;
  // Returns the inputs that must be in memory before the kernels ahead have ended.
  std::vector<int> independent(size_t num_inputs) const;
};

// Returns whether there are instructions for such nodes at all.
bool is_of_a_megakernel(const OpDef& op);

// Describes the instruction for a step in `shape`. Returns why there is none, or an empty text.
std::string describe_instruction(const KernelQuery& query, InstructionShape& shape);

}  // namespace genesis::cuda
