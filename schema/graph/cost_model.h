// The model of cost: how long nodes, steps and exchanges take. Passes, executors, profiles and predictions all ask here, each with
// the speeds that it knows: facts of a target (schema/graph/target.h) or measured peaks (executor/runtime/peaks.h).
//
// A node takes the longer of its arithmetic and its memory traffic (the roofline model, Williams et al. 2009). An exchange between
// ranks takes a latency plus its bytes over a bandwidth (the alpha-beta model, Hockney 1994). A launch takes a fixed time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"
#include "schema/graph/target.h"

namespace genesis {

// These return the work of a step or a node, by its op's definition (schema/graph/cost.h). Sizes must be known.
inline Cost cost_of(const Step& step) {
  return cost_of(*step.op, step.attributes, step.input_types, step.output_types);
}
Cost cost_of(const Graph& graph, const Node& node);
// Gives the symbols of the graph these sizes. Views cost nothing.
Cost cost_of(const Graph& graph, const Node& node, const Bindings& sizes);

// Returns true if products of these inputs run at the rate of 16-bit operands.
inline bool multiplies_low_precision(Types inputs) {
  return !inputs.empty() && is_low_precision(inputs[0].dtype);
}

// A device does this much in a unit of time. The times below are in that unit.
struct Rates {
  double bytes = 1;  // bytes read or written in memory
  double flops = 1;  // flops of products
};
inline Rates rates_of(const Target& target) { return {target.bytes_per_second, target.flops_per_second}; }

inline double memory_time(double bytes, const Rates& rates) { return bytes / rates.bytes; }
inline double arithmetic_time(double flops, const Rates& rates) { return flops / rates.flops; }
inline double time_of(const Cost& work, const Rates& rates) {
  return std::max(memory_time(work.bytes, rates), arithmetic_time(work.flops, rates));
}

// A connection between ranks: the least time of an exchange, and the bytes that a rank sends in a unit of time.
struct Link {
  double latency = 0, bytes = 1;
};
inline Link link_of(const Target& target) { return {target.exchange_seconds, target.exchanged_per_second}; }

// Returns the time of `exchanges` exchanges in which each rank sends `bytes` in total.
inline double exchange_time(const Link& link, int exchanges, double bytes) {
  return exchanges * link.latency + bytes / link.bytes;
}

// Returns the seconds saved if one step replaces `steps` steps: all launches but one.
inline double seconds_saved_by_one_step_for(const Target& target, size_t steps) {
  return steps < 2 ? 0 : static_cast<double>(steps - 1) * target.launch_seconds;
}
// Returns the seconds to read or write `bytes` of memory.
inline double seconds_to_move(const Target& target, int64_t bytes) {
  return memory_time(static_cast<double>(bytes), rates_of(target));
}

// Returns the time of work in flops, for comparing nodes with each other on a device that does `flops_per_byte` flops while it
// moves a byte. Takes no division, so that equal work stays equal.
inline double time_in_flops(const Cost& work, double flops_per_byte) {
  return std::max(work.flops, flops_per_byte * work.bytes);
}

}  // namespace genesis
