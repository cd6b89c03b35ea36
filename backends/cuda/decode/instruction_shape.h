// Which steps of a plan can be instructions of a megakernel (megakernel.h), and what such an instruction computes: one
// row of x times weights, attention of one new token over its caches, or the norm of each head of a new token. Needs
// no device. Used by executor/cuda/megakernel/cuda_megakernel_plan.cpp.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "schema/encoding/weight_format.h"
#include "schema/graph/target.h"

namespace genesis::cuda {

struct InstructionShape {
  enum class Kind { kProduct, kAttention, kHeadNorm };
  static constexpr int kMaxLayers = 4;
  static constexpr int kNone = -1;

  Kind kind = Kind::kProduct;

  // kProduct: y_i = [rms_norm](x) weight_i^T + bias_i, plus an addend; with swiglu silu(y_0) * y_1. Inputs of
  // the step by their index, or kNone; weights and biases of all layers stand side by side.
  int64_t k = 0;
  std::vector<int64_t> n;  // rows of each weight
  bool swiglu = false;
  bool wide = false;  // y is f32: it is written to memory, and no instruction reads it
  float eps = 0;  // of kHeadNorm too
  int norm = kNone, weight = kNone, scales = kNone, bias = kNone, addend = kNone;
  WeightFormat format = WeightFormat::kPlain;  // of the weights; plain ones have no scales

  // kAttention: as ops::CachedAttention has it. kHeadNorm: heads of that size.
  int heads = 0, key_heads = 0, size = 0;
  int64_t positions = 0;
  float scale = 1;
  double theta = 0;
  int64_t window = 0;

  // Elements of output i that other instructions may ask for; caches are no such output.
  std::vector<int64_t> elements;
  // The step's inputs that are vectors of this kind: x, or q, k and v.
  std::vector<int> vectors() const;
  // Inputs that must be in memory before the kernels ahead have ended.
  std::vector<int> independent(size_t num_inputs) const;
};

// Whether there are instructions for such nodes at all.
bool is_of_a_megakernel(const OpDef& op);

// What the instruction for a step computes, in `shape`. Not empty where there is none: why not, in words.
std::string describe_instruction(const KernelQuery& query, InstructionShape& shape);

}  // namespace genesis::cuda
