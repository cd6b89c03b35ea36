// When inference on a CPU computes with weights that are packed once, in the order in which its kernels read them. Used by
// channels_last, which packs those of convolutions, and pack_weights, which packs those of layers with many rows.
#pragma once

#include "passes/core/pass.h"
#include "schema/graph/graph.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {

// Returns true for a CPU and a graph that trains nothing, whose states are stored as the file has them: values that depend on
// states alone are computed once then (passes/core/prepared_values.h).
bool packs_weights(const Graph& graph, const PassContext& context);

// Returns true if a value depends on parameters, and on nothing that changes from run to run.
bool depends_on_states_alone(const Graph& graph, ValueId id);

// Returns the attributes of the convolution with its weight packed, if the target has a kernel for it. `x` and `result` have their
// channels last, `weight` is [out, in / groups, window...].
std::optional<ops::Convolution> packed_form(const Target& target, ops::Convolution op, const TensorType& x,
                                            const TensorType& weight, const TensorType& result);

// Returns an activation of layers as one of convolutions.
std::optional<ConvolutionActivation> packed_activation(Activation activation);
// Returns the activation that a node computes, if layers have it.
std::optional<Activation> activation_of(const Node& node);

// Returns the convolution with packed weights that makes `y`, with the activation that `node` computes of it as its epilogue. Empty
// if y is made by another node, has an activation already, or the kernels have none for `node`.
Value with_activation(Value y, const Node& node);

}  // namespace genesis::passes
