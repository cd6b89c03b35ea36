// The passes of this folder let entry points read states that are stored encoded: as q8, q4 or q4m, or as bf16 halves.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// --- states stored as q8, q4 or q4m (schema/encoding/quantized_formats.h). First every reader gets their values from dequantize
// nodes, so that patterns see the layers as they were written. At the end of a pipeline, products that a kernel of the target
// computes from quantized weights read these directly, and the dequantize nodes between are removed.

// Returns whether the storage has such states.
bool has_quantized(const StateStorage& storage);

// Adds the dequantize nodes. This is not a pass of a pipeline: a graph that reads quantized states cannot run without it. An
// embedding looks up rows first and dequantizes them afterwards. Groups in other formats are left unchanged.
Graph decode_quantized(const Graph& graph, const StateStorage& storage);

// Does the same as a pass, for slices of such states (schema/graph/state_cuts.h), which graphs read after partition has cut
// them.
Graph decode_slices(const Graph& graph, const PassContext& context);

// Lets linear, and matmul as linear, read quantized weights directly. The remaining dequantize nodes move just before their
// first readers.
Graph read_quantized(const Graph& graph, const PassContext& context);

// --- sums of 16-bit values

// Keeps the residual stream of a model with 16-bit weights in f32 on a target that adds in f32 at no cost: additions that only
// norms and other such additions read. Rounding the stream at every layer is the largest rounding error of such a model: the
// logits of SmolLM2-135M in bf16 differ from those in f32 by 0.11 (root mean square) without it, and by 0.24 in transformers,
// which rounds.
Graph widen_sums(const Graph& graph, const PassContext& context);

// --- weights of bf16 training that are stored in parts, of which products read one

// Finds the weights for which this pays, in the format bf16_halves (passes/precision/weight_halves.h): Adam updates them in
// every entry point that updates them at all, and these entry points otherwise only read them as bf16. Their parts are numbered
// behind the model's states.
StateStorage find_stored_weights(const Model& model);

// Returns whether the graph updates a state that is stored in parts.
bool updates_stored(const Graph& graph, const StateStorage& storage);

// Rewrites one entry point for the weights that PassContext::storage keeps in parts: casts to bf16 become the rounded part or a
// view of it, Adam updates become updates of all parts, and readers of f32 get the parts joined. Changes nothing without such
// weights.
Graph use_weight_halves(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
