// A model for inference in bf16 or f16: half the bytes to read for every weight and cached key, and faster
// matrix products where the hardware has them. And the same for the loss that a training step is made of,
// where the weights stay f32. Each op keeps the precision its class (OpInfo::precision) asks for
// (passes/precision/precision_caster.h). Inputs and outputs of entry points keep their types.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis::passes {

// States and tensors of f32 become `low`, but for those that nodes read which `keep_f32` names (by patterns
// over their names, as in TrainOptions). Throws Error when an entry point trains: optimizers need f32
// parameters.
std::unique_ptr<Model> cast_precision(const Model& model, DType low,
                                      const std::vector<std::string>& keep_f32 = {});

// `graph` computing in `low`, of the same model: states stay as they are, and each weight is cast once,
// however many nodes read it. With every node kept the result is `graph`, node for node.
Graph mixed_precision(const Graph& graph, DType low, const std::vector<std::string>& keep_f32 = {});

// Throws Error for a pattern that names no node of the graph.
void check_keep_f32(const Graph& graph, const std::vector<std::string>& keep_f32);

}  // namespace genesis::passes
