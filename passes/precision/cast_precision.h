// Makes a model for inference in bf16 or f16: half the bytes for every weight and cached key, and faster matrix products if the
// hardware has them. Does the same for the loss graph of a training step, whose weights stay f32. Each op keeps the precision
// that its class (OpInfo::precision) requires (passes/precision/precision_caster.h). Inputs and outputs of entry points keep
// their types.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::passes {

// Converts f32 states and tensors to `low`, except those that are read by nodes matching `keep_f32` (patterns of node names, as
// in TrainOptions). Throws an Error if an entry point trains: optimizers need f32 parameters.
std::unique_ptr<Model> cast_precision(const Model& model, DType low,
                                      const std::vector<std::string>& keep_f32 = {});

// Returns `graph` computing in `low`, in the same model: states stay as they are, and each weight is cast once, however many
// nodes read it. If every node is kept in f32, the result equals `graph`, node for node.
Graph mixed_precision(const Graph& graph, DType low, const std::vector<std::string>& keep_f32 = {});

// Throws an Error for a pattern that matches no node of the graph.
void check_keep_f32(const Graph& graph, const std::vector<std::string>& keep_f32);

}  // namespace genesis::passes
