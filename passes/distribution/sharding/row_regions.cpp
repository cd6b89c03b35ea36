#include "passes/distribution/sharding/row_regions.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/match.h"
#include "passes/distribution/sharding/same_values.h"
#include "schema/graph/cost_model.h"
#include "schema/messages/log.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// Returns whether the node sums one tensor over the ranks that has two dimensions or more: all but the last count tokens.
bool is_sum_of_ranks(const Graph& graph, const Node& node) {
  const auto sum = match<ops::AllReduce>(node);
  return sum && sum->axis == kTensorAxis && sum->reduction == RankReduction::kSum && !sum->has_addend &&
         node.inputs.size() == 1 && graph.type(node.outputs[0]).shape.rank() > 1;
}

// Fraction by which a step may become slower to save memory under a memory budget; without one it may not become slower at all.
// Rematerialization, the other way to save memory, costs up to a third.
constexpr double kMaxLost = 0.1;

double flops_of(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes()) flops += cost_of(graph, node).flops;
  return flops;
}

bool is_norm(const Node& node) {
  return is<ops::RmsNorm, ops::LayerNorm, ops::RmsNormGrad, ops::LayerNormGrad>(node);
}

}  // namespace

// Counts what sharding the tokens of one region gains and costs.
struct RowRegions::Region {
  std::string first;  // name of its first node
  bool has_norm = false;
  int sums = 0, gathers = 0;
  // Bytes per rank: sent beyond what the sums would send; the share of these sent while products run; and memory traffic that
  // is saved because norms work on a shard of the rows.
  double exchanged = 0, hidden = 0, spared = 0;

  double seconds_lost(const Target& target) const {
    return exchange_time(link_of(target), gathers, exchanged + target.exchange_shown * hidden) -
           memory_time(spared, rates_of(target));
  }
  // Returns why the tokens of this region are not sharded; empty if they are.
  std::string why_not(const Target& target, double most_seconds) const {
    if (!has_norm) return "no norm is in it";
    const double lost = seconds_lost(target);
    if (lost <= most_seconds) return "";
    return fmt::format("{} sums would become {} gathers, and a step some {:.0f} us longer, {:.0f} at most",
                       sums, gathers, 1e6 * lost, 1e6 * most_seconds);
  }
};

RowRegions::RowRegions(const Graph& graph, const PassContext& context, const FactorShard& shard)
    : graph_(graph),
      shard_(shard),
      dims_(graph.values().size(), kNoRows),
      sets_of_(graph.values().size()),
      rules_(graph.nodes().size()),
      begins_(graph.nodes().size()) {
  const std::vector<bool> same = same_on_ranks(graph, context);
  for (const Node& node : graph.nodes()) find(node, same);
  drop_regions_that_do_not_pay(context);
}

bool RowRegions::has_some() const { return std::find(begins_.begin(), begins_.end(), true) != begins_.end(); }

const RowWise* RowRegions::rule_of(const Node& node) const {
  const auto& rule = rules_[static_cast<size_t>(id_of(graph_, node).index)];
  return rule ? &*rule : nullptr;
}
bool RowRegions::begins(const Node& node) const {
  return begins_[static_cast<size_t>(id_of(graph_, node).index)];
}
int RowRegions::row_dims(ValueId value) const { return dims_[static_cast<size_t>(value.index)]; }

size_t RowRegions::region_of(ValueId value) { return sets_.find(set(value)); }
size_t RowRegions::region_of(const Node& node) {
  return region_of(*std::find_if(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId input) { return dims(input) != kNoRows; }));
}

ValueId RowRegions::in_first_shape(ValueId value) const {
  for (auto other = match<ops::Reshape>(graph_, value); other && rule_of(*other.node);
       other = match<ops::Reshape>(graph_, value))
    value = other.input(0);
  return value;
}

void RowRegions::find(const Node& node, const std::vector<bool>& same) {
  if (is_sum_of_ranks(graph_, node)) return begin(node);
  std::vector<int> row_dims;
  bool is_same = true;
  for (const ValueId input : node.inputs) {
    row_dims.push_back(dims(input));
    is_same &= same[static_cast<size_t>(input.index)];
  }
  if (!is_same) return;
  if (auto rule = row_wise(graph_, node, row_dims, shard_)) add(node, std::move(*rule));
}

void RowRegions::begin(const Node& node) {
  const ValueId sum = node.outputs[0];
  const Shape& shape = graph_.type(sum).shape;
  if (!divides_rows(shape, shape.rank() - 1, shard_.ranks)) {
    log_debug("{}: {} ranks do not divide the tokens of {}, all of which stay on each", node.name,
              shard_.ranks, shape.to_string());
    return;
  }
  dims(sum) = shape.rank() - 1;
  set(sum) = sets_.add();
  begins_[static_cast<size_t>(id_of(graph_, node).index)] = true;
}

void RowRegions::add(const Node& node, RowWise rule) {
  const size_t own = sets_.add();
  for (const ValueId input : node.inputs)
    if (dims(input) != kNoRows) sets_.join(set(input), own);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    dims(node.outputs[i]) = rule.results[i];
    set(node.outputs[i]) = own;
  }
  rules_[static_cast<size_t>(id_of(graph_, node).index)] = std::move(rule);
}

// Returns the bytes of the rows of a value that other ranks have.
double RowRegions::bytes_elsewhere(ValueId value) const {
  const auto ranks = static_cast<double>(shard_.ranks);
  return static_cast<double>(graph_.type(value).bytes()) * (ranks - 1) / ranks;
}

// Returns the regions by their set of values. A value that is read outside of its region is gathered once for all readers.
std::map<size_t, RowRegions::Region> RowRegions::count() {
  std::map<size_t, Region> regions;
  std::set<ValueId> gathered;
  const auto gather = [&](ValueId value) {
    if (dims(value) == kNoRows || !gathered.insert(in_first_shape(value)).second) return;
    Region& region = regions[region_of(value)];
    ++region.gathers;
    region.exchanged += bytes_elsewhere(value);
    // The result of a norm is gathered again for the backward pass.
    if (const Node* maker = producer(graph_, in_first_shape(value)); is<ops::RmsNorm, ops::LayerNorm>(*maker))
      region.hidden += bytes_elsewhere(value);
  };
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (begins_[i]) {
      Region& region = regions[region_of(node.outputs[0])];
      if (region.sums++ == 0) region.first = node.name;
      region.exchanged -= bytes_elsewhere(node.outputs[0]);
    }
    if (rules_[i]) {
      Region& region = regions[region_of(node)];
      region.has_norm |= is_norm(node);
      if (is_norm(node))
        for (const auto* values : {&node.inputs, &node.outputs})
          for (const ValueId value : *values) region.spared += bytes_elsewhere(value);
    } else {
      std::for_each(node.inputs.begin(), node.inputs.end(), gather);
    }
  }
  for (const NamedValue& output : graph_.outputs()) gather(output.value);
  for (const StateUpdate& update : graph_.updates()) gather(update.value);
  return regions;
}

void RowRegions::drop_regions_that_do_not_pay(const PassContext& context) {
  const std::map<size_t, Region> regions = count();
  const Target target = context.target_or_default();
  const double step =
      arithmetic_time(flops_of(graph_), rates_of(target)) / static_cast<double>(regions.size());
  const double most = context.memory_budget ? kMaxLost * step : 0;
  const auto pays = [&](size_t region) { return regions.at(region).why_not(target, most).empty(); };
  for (const auto& [set, region] : regions)
    if (const std::string why = region.why_not(target, most); !why.empty())
      log_debug("all tokens stay on each rank behind {}: {}", region.first, why);
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Node& node = graph_.nodes()[i];
    begins_[i] = begins_[i] && pays(region_of(node.outputs[0]));
    if (rules_[i] && !pays(region_of(node))) rules_[i].reset();
  }
  for (size_t i = 0; i < dims_.size(); ++i)
    if (dims_[i] != kNoRows && !pays(sets_.find(sets_of_[i]))) dims_[i] = kNoRows;
}

}  // namespace genesis::passes
