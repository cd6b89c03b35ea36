#include "executor/distributed/prediction.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "executor/distributed/traffic.h"
#include "executor/runtime/step_graph.h"
#include "passes/core/match.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/nn/attention.h"

namespace genesis {
namespace {

double compute_us(const Step& step, const ChipRates& chip) {
  const bool is_attention = passes::is<ops::Attention, ops::AttentionGrad>(*step.op);
  const double flops = is_attention                                 ? chip.attention_flops
                       : multiplies_low_precision(step.input_types) ? chip.low_flops
                                                                    : chip.f32_flops;
  return chip.step_us + 1e6 * time_of(cost_of(step), {chip.bytes, flops});
}

// Tells how the ranks that exchange data with rank 0 along an axis are spread over hosts.
struct Group {
  int64_t hosts = 1, each_host = 1;
};

Group group_of(const Mesh& mesh, std::string_view axis, const RankLinks& links) {
  const std::vector<int64_t> ranks = mesh.group(0, axis);
  Group group;
  group.hosts = ranks.back() / links.ranks_each_host - ranks.front() / links.ranks_each_host + 1;
  group.hosts = std::min<int64_t>(group.hosts, std::ssize(ranks));
  group.each_host = std::ssize(ranks) / group.hosts;
  return group;
}

// Rings visit every rank of a host before they leave the host, and use the links of all its ranks to leave it.
double exchange_us(const Step& step, const Mesh& mesh, const RankLinks& links) {
  const std::string_view axis = axis_of(*step.op, step.attributes);
  const Group group = group_of(mesh, axis, links);
  const auto bytes = static_cast<double>(bytes_over_link(step, mesh.size(axis)));
  Link link = {links.same_host_us, 1e-6 * links.same_host};
  if (group.hosts > 1) {
    link.latency += links.other_hosts_us * std::ceil(std::log2(static_cast<double>(group.hosts)));
    link.bytes = std::min(link.bytes, 1e-6 * links.other_hosts * static_cast<double>(group.each_host));
  }
  return exchange_time(link, 1, bytes);
}

}  // namespace

Prediction predict(const Plan& plan, const Mesh& mesh, const ChipRates& chip, const RankLinks& links) {
  const StepGraph graph = make_step_graph(plan);
  std::vector<double> ready(plan.steps.size(), 0);  // by step: when all steps it waits for are done
  double busy = 0, exchanging = 0;                  // end of the work so far
  Prediction prediction;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    double end = 0;
    if (step.op->info.collective) {
      const double took = exchange_us(step, mesh, links);
      prediction.exchange_us += took;
      end = exchanging = std::max(exchanging, ready[i]) + took;
    } else {
      const double took = compute_us(step, chip), start = std::max(busy, ready[i]);
      const double beside = std::clamp(exchanging - start, 0.0, took);
      prediction.compute_us += took;
      end = busy = start + took + kExchangeShown * beside;
    }
    for (const int32_t next : graph.successors[i])
      ready[static_cast<size_t>(next)] = std::max(ready[static_cast<size_t>(next)], end);
    prediction.step_us = std::max(prediction.step_us, end);
  }
  return prediction;
}

}  // namespace genesis
