// The part of an optimizer's work that one of the ranks along "data" does.
//
// The norm of averaged gradients: each rank sums the squares of its part of every gradient whose elements the ranks divide,
// and the sums are added up over the ranks. So every run of so many ranks has the same bits, whatever it shards.
//
// Updates of moments that the context's storage keeps as shards: a gradient that only they and norms read travels by
// reduce_scatter instead of all_reduce; the update works on the flat part of parameter, gradient and moments that is this
// rank's; and the new parameters are gathered from all ranks, many at a time. The result is that of whole updates, bit for
// bit, where a reduce_scatter adds the ranks as an all_reduce does. From stage 2 on what is exchanged of a gradient that is a sum
// over micro-batches is each of them, as soon as it is made, so that no whole gradient waits for the next: the parts are
// summed, which rounds otherwise. (ZeRO: Rajbhandari et al. 2020, arXiv:1910.02054.)
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

Graph shard_optimizer(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
