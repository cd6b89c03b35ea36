// The passes of this folder: how entry points read states that are not kept as what they mean.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// How an entry point reads states that are kept as q8 or q4 (schema/encoding/quantized_formats.h). First everything that reads one
// gets numbers from dequantize nodes, so that every pattern sees the layers as they were written. At the end of a pipeline
// products that a kernel of the target does with quantised weights read these, and the nodes between are gone.

// Whether there are such states.
bool has_quantized(const StateStorage& storage);

// Not a pass of a pipeline: without it nothing with such states runs. A looked-up row is dequantised after it was looked up.
// Groups of other formats are left alone.
Graph decode_quantized(const Graph& graph, const StateStorage& storage);

// The same as a pass, for slices of such states (schema/graph/state_cuts.h), which graphs read once partition has cut them.
Graph decode_slices(const Graph& graph, const PassContext& context);

// The pass: linear, and matmul as linear, of dequantize nodes. Those that remain stand just before who reads them first.
Graph read_quantized(const Graph& graph, const PassContext& context);

// How weights of bf16 training are kept in parts, of which products read one.

// What pays: weights that Adam updates in every entry point that updates them, and that these read as bf16 otherwise, in the
// format bf16_halves (passes/precision/weights_as_halves.h). Their parts are numbered behind the model's states.
StateStorage find_stored_weights(const Model& model);

// Whether the graph updates a state that is kept in parts.
bool updates_stored(const Graph& graph, const StateStorage& storage);

// The pass, for one entry point and weights that are kept so by PassContext::storage: casts of them become the rounded part or a
// view of it, updates of Adam become updates of all parts, and whoever reads f32 gets it joined. Without such weights nothing
// changes.
Graph split_weights(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
