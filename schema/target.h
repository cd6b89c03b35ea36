// All that passes know about hardware: plain data and plain functions a backend fills in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "schema/op.h"
#include "schema/tensor.h"

namespace genesis {

// One node, with known sizes, as a backend is asked about it.
struct KernelQuery {
  const OpDef& op;
  const Attributes& attributes;
  Types inputs, outputs;
};

struct Target {
  std::string device = "cpu";  // as on the command line: "cpu", "cuda:0"
  int64_t alignment = 64;      // of every buffer in the arena, bytes
  bool groups_small_work =
      false;                      // starting a kernel is dear: casts of all weights are one node, updates too
  bool splits_weights = false;    // weights of bf16 training are kept as halves, instead of cast every step
  int64_t merge_linear_rows = 0;  // linear layers that share x are one step where x has at most so many rows
  // Empty: some kernel can run this node. Otherwise why not, one reason per implementation.
  std::optional<std::string> (*can_run)(const KernelQuery&) = nullptr;
  // Scratch memory the chosen kernel wants for this node, bytes.
  int64_t (*scratch_bytes)(const KernelQuery&) = nullptr;
  // Runs a node on tensors of the host, for constant folding. Empty when it cannot.
  std::optional<std::vector<Tensor>> (*evaluate)(const KernelQuery&,
                                                 std::span<const Tensor> inputs) = nullptr;
};

}  // namespace genesis
