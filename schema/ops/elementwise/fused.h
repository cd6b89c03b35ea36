// One node that stands for a region of the graph: a small program of elementwise ops, and of reductions over the last axis. It is
// executed tile by tile, so that values between its ops never reach memory. passes/fusion/elementwise/fuse_elementwise creates
// it; schema/ops/elementwise/fused_program.h reads it.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

struct FusedProgram;

namespace ops {

struct Fused {
  static constexpr OpInfo info{.name = "fused",
                               .doc =
                                   "A program of elementwise ops and reductions over the last axis: one line "
                                   "of `body` per op, inputs first in the numbering of values.",
                               .inputs = {1, kVariadic},
                               .precision = Precision::kExact};
  std::vector<std::string> body;  // "mul %0 %1", "gelu %2 {approximate=\"tanh\"}"
  std::vector<int64_t> outputs;   // numbers of the values that are results
  static void fields(auto& self, auto&& visit) {
    visit("body", self.body);
    visit("outputs", self.outputs);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const;
  // An output may overwrite an input whose last use is at or before the op that computes the output.
  std::vector<InPlace> in_place(Types in, Types out) const;
};

}  // namespace ops

// Returns the program of a node with these attributes. Throws Error that names the line.
FusedProgram parse_fused_program(const ops::Fused& op, Types inputs);

std::vector<Value> fused(std::vector<Value> inputs, std::vector<std::string> body,
                         std::vector<int64_t> outputs);

}  // namespace genesis
