// The kernels of collective ops, send and recv. `Device` has the differences between devices: static copy(context, to, from) and
// static stream(context). With kAdds it also has static add(context, to, addend), and early(context), which returns true if the
// exchange may start before the previous kernel has ended.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "backends/collectives.h"
#include "backends/kernel.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/collective/point_to_point.h"

namespace genesis {

// Returns the exchanges with their element counts: of the whole tensor, or of a shard if only one side is the whole tensor.
inline std::vector<Exchange> exchanges_of(std::span<const TensorView> inputs,
                                          std::span<const TensorView> outputs) {
  std::vector<Exchange> tensors;
  for (size_t i = 0; i < outputs.size(); ++i)
    tensors.push_back(
        {inputs[i].data, outputs[i].data, std::min(inputs[i].numel(), outputs[i].numel()), inputs[i].dtype});
  return tensors;
}

template <class Device>
class CollectiveKernels {
 public:
  static void all_reduce(const KernelContext& c) {
    const auto& op = c.attributes<ops::AllReduce>();
    if (op.has_addend) return all_reduce_adding(c, op);
    exchange(c, op.axis, [&](RankGroup& ranks, std::span<const Exchange> tensors) {
      ranks.all_reduce(tensors, op.reduction, Device::stream(c));
    });
  }

  static std::optional<std::string> can_all_reduce(const KernelQuery& query) {
    if (!Device::kAdds && from_attributes<ops::AllReduce>(query.attributes).has_addend)
      return "adds nothing to the sum of ranks";
    return std::nullopt;
  }

  static void reduce_scatter(const KernelContext& c) {
    const auto& op = c.attributes<ops::ReduceScatter>();
    exchange(c, op.axis, [&](RankGroup& ranks, std::span<const Exchange> tensors) {
      ranks.reduce_scatter(tensors, op.reduction, Device::stream(c));
    });
  }

  static void all_gather(const KernelContext& c) {
    exchange(c, c.attributes<ops::AllGather>().axis,
             [&](RankGroup& ranks, std::span<const Exchange> tensors) {
               ranks.all_gather(tensors, Device::stream(c));
             });
  }

  static void all_to_all(const KernelContext& c) {
    exchange(c, c.attributes<ops::AllToAll>().axis, [&](RankGroup& ranks, std::vector<Exchange>& tensors) {
      for (Exchange& tensor : tensors) tensor.count /= ranks.size();
      ranks.all_to_all(tensors, Device::stream(c));
    });
  }

  static void broadcast(const KernelContext& c) {
    const auto& op = c.attributes<ops::Broadcast>();
    exchange(c, op.axis, [&](RankGroup& ranks, std::span<const Exchange> tensors) {
      ranks.broadcast(tensors, static_cast<int>(op.root), Device::stream(c));
    });
  }

  static void send(const KernelContext& c) {
    const auto& op = c.attributes<ops::Send>();
    const Exchange tensor{c.input(0).data, nullptr, c.input(0).numel(), c.input(0).dtype};
    if (RankGroup* ranks = group_with(c, op.axis, op.to))
      ranks->send({&tensor, 1}, static_cast<int>(op.to), Device::stream(c));
  }

  static void recv(const KernelContext& c) {
    const auto& op = c.attributes<ops::Recv>();
    const Exchange tensor{nullptr, c.output().data, c.output().numel(), c.output().dtype};
    if (RankGroup* ranks = group_with(c, op.axis, op.from))
      ranks->receive({&tensor, 1}, static_cast<int>(op.from), Device::stream(c));
  }

 private:
  // Returns the ranks of the axis, which include `peer` as another rank. The mesh was checked when the plan was made. Returns
  // null, with a fault, if the session has no such ranks.
  static RankGroup* group_with(const KernelContext& c, const std::string& axis, int64_t peer) {
    RankGroup* ranks = c.collectives ? c.collectives->group(axis) : nullptr;
    if (ranks && peer < ranks->size() && peer != ranks->rank()) return ranks;
    c.fault->report("exchanges with a rank that this session has not: give SessionOptions::collectives");
    return nullptr;
  }

  static void all_reduce_adding(const KernelContext& c, const ops::AllReduce& op) {
    if constexpr (Device::kAdds) {
      bool is_added = false;
      exchange(c, op.axis, [&](RankGroup& ranks, std::span<const Exchange> tensors) {
        is_added = ranks.all_reduce_adding(tensors[0], c.input(1).data, Device::stream(c), Device::early(c));
        if (!is_added) ranks.all_reduce(tensors, op.reduction, Device::stream(c));
      });
      if (!is_added) Device::add(c, c.output(), c.input(1));
    }
  }

  // Calls `call` with the ranks of the axis and the tensors. Along an axis of one rank the values are copied unchanged; a fault says
  // that the node is for more ranks.
  template <class Call>
  static void exchange(const KernelContext& c, const std::string& axis, const Call& call) {
    RankGroup* ranks = c.collectives ? c.collectives->group(axis) : nullptr;
    if (!ranks || ranks->size() == 1) {
      for (size_t i = 0; i < c.outputs.size(); ++i) {
        if (c.outputs[i].numel() != c.inputs[i].numel())
          return c.fault->report(
              "exchanges with more ranks than this session has: give SessionOptions::collectives");
        Device::copy(c, c.outputs[i], c.inputs[i]);
      }
      return;
    }
    std::vector<Exchange> tensors = exchanges_of(c.inputs, c.outputs);
    call(*ranks, tensors);
  }
};

template <class Device>
inline constexpr OpKernel kCollectiveKernels[] = {
    {"all_reduce",
     {.name = "ranks",
      .run = CollectiveKernels<Device>::all_reduce,
      .can_run = CollectiveKernels<Device>::can_all_reduce}},
    {"reduce_scatter", {.name = "ranks", .run = CollectiveKernels<Device>::reduce_scatter}},
    {"all_gather", {.name = "ranks", .run = CollectiveKernels<Device>::all_gather}},
    {"all_to_all", {.name = "ranks", .run = CollectiveKernels<Device>::all_to_all}},
    {"broadcast", {.name = "ranks", .run = CollectiveKernels<Device>::broadcast}},
    {"send", {.name = "ranks", .run = CollectiveKernels<Device>::send}},
    {"recv", {.name = "ranks", .run = CollectiveKernels<Device>::recv}}};

}  // namespace genesis
