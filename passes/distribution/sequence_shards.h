// What ranks along "tensor" would all compute alike between two layers that they share, each for a part of the tokens
// (sequence parallelism, Korthikanti et al. 2022, arXiv:2205.05198): the all_reduce behind a layer becomes a reduce_scatter, norms,
// residual sums and dropout work on one Nth of the rows, and an all_gather stands before what wants them whole, such as a
// layer of which each rank has a part. The two exchange what the all_reduce did, and what the backward pass keeps is one Nth.
//
// Tokens are the rows of what is summed: all its dimensions but the last. A rank's part is a run of them, whatever sequence they
// are from (sharding/row_rules.h). Gradients of norms' weights are sums over the rows; the ranks add them up, all in one
// exchange. Where ranks do not divide the tokens, or a step would become longer by an estimate (with a memory budget by more than a tenth), the
// all_reduce stays, and debug says so.
// What gathers again for the backward pass, instead of keeping what was gathered, is passes/memory/recompute_outputs.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Of what partition gives.
Graph shard_sequence(const Graph& graph, const PassContext& context);

}  // namespace genesis::passes
