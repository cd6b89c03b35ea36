// When weights of which every rank has a part are gathered: a layer's together, while the layer ahead of it computes, and
// again for the backward pass instead of being kept for it (ZeRO stage 3; as FSDP does, Zhao et al. 2023, arXiv:2304.11277,
// but as nodes of the graph, whose memory and streams are planned like others').
//
// The nodes that read gathered weights, in the graph's order, are stages: one for each run of nodes that read the same
// layer's. A layer is what names up to their first number say, `model.layers.3`; weights without a number are one. Each
// stage gets a gather of its own, of what it reads, which stands before the first node of the stage ahead; and copies of
// the nodes that make nothing but another form of weights (reshape, cast, concat). What a stage reads is so dead
// behind it.
//
// It stands behind every pass that makes equal nodes one. Orders of nodes keep a gather before the node it stands
// before (passes/memory/node_order.h).
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph place_gathers(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
