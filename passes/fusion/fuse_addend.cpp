#include "passes/fusion/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "passes/core/addend.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// An addition that becomes the addend of the product, or of the sum over ranks, of which it is the only reader. If that product
// already has an addend and this is another product's result, the other product takes the new addend, and `top` still adds to
// its result.
struct Match {
  const Node* product = nullptr;
  const Node* top = nullptr;  // its result replaces the addition's; often equal to `product`
  ValueId addend;
};

// Returns whether the node sums over the ranks of the axis `tensor`. A tensor that is not sharded is the same on all of them,
// as the addend must be.
bool is_sum_of_ranks(const Node& node) {
  const auto exchange = match<ops::AllReduce>(node);
  return exchange && node.inputs.size() == 1 && exchange->reduction == RankReduction::kSum &&
         !exchange->has_addend && exchange->axis == kTensorAxis;
}

// Returns whether the node has no addend and no activation, which would have to follow the addend.
bool can_take_addend(const Node& node) {
  if (const auto product = match<ops::Matmul>(node)) return product->is_plain() && node.inputs.size() == 2;
  if (is_sum_of_ranks(node)) return true;
  return is_bare_product(match<ops::Linear>(node));
}

// Follows addends with a single reader and returns the product that can take another addend; null if there is none.
const Node* end_of_addends(const Graph& graph, const Uses& uses, const Node* product) {
  while (product && !can_take_addend(*product)) {
    const auto layer = match<ops::Linear>(*product);
    if (!layer || !layer->is_unquantized_product() || !layer->has_addend ||
        !uses.single(product->inputs.back()))
      return nullptr;
    product = producer(graph, product->inputs.back());
  }
  return product;
}

Attributes attributes_with_addend(const Node& product) {
  Attributes attributes = product.attributes;
  if (!is<ops::Matmul>(product)) attributes.set("has_addend", true);
  return attributes;
}

class Finder {
 public:
  Finder(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), uses_(graph), live_(live_nodes(graph)) {
    for (const NamedValue& output : graph.outputs()) kept_.insert(output.value);
    for (const StateUpdate& update : graph.updates()) kept_.insert(update.value);
  }

  // Returns the matches by index of the addition's node.
  std::map<int32_t, Match> run() {
    const auto& nodes = graph_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i)
      if (live_[i] && is<ops::Add>(nodes[i]))
        if (const auto match = match_of(nodes[i])) matches_.emplace(static_cast<int32_t>(i), *match);
    // Goes from the last addition to the first: whether one pays depends on whether its readers remain additions.
    for (auto at = matches_.end(); at != matches_.begin();)
      if (--at; !pays(nodes[static_cast<size_t>(at->first)], at->second)) at = matches_.erase(at);
    // An addition that remains is computed later than with its product: removes matches whose addend is then computed too late.
    for (auto at = matches_.begin(); at != matches_.end();)
      at = made_at(at->second.addend) < position(*at->second.product) ? std::next(at) : matches_.erase(at);
    return std::move(matches_);
  }

 private:
  // Prefers the later of two products, which then adds the result of the other.
  std::optional<Match> match_of(const Node& add) const {
    std::optional<Match> best;
    for (const auto& [sum, addend] : either_way(add)) {
      const Node* top = uses_.single(sum) ? producer(graph_, sum) : nullptr;
      const Node* product = end_of_addends(graph_, uses_, top);
      if (!product) continue;
      const Match match{product, top, addend};
      if (best && position(*best->product) > position(*product)) continue;
      if (fits(add, match)) best = match;
    }
    return best;
  }

  bool fits(const Node& add, const Match& match) const {
    const TensorType &result = graph_.type(match.product->outputs[0]), &addend = graph_.type(match.addend);
    return result == addend && result == graph_.type(add.outputs[0]) &&
           made_at(match.addend) < position(*match.product) && can_run(match);
  }

  bool can_run(const Match& match) const {
    const Target* target = context_.target;
    if (!target) return true;
    std::vector<TensorType> inputs = graph_.input_types(*match.product);
    inputs.push_back(graph_.type(match.addend));
    const std::vector<TensorType> outputs = {graph_.type(match.product->outputs[0])};
    const auto known = [](const TensorType& type) { return type.shape.is_constant(); };
    if (!std::ranges::all_of(inputs, known) || !known(outputs[0])) return true;
    const Attributes attributes = attributes_with_addend(*match.product);
    return target->runs(target->query(*match.product->op, attributes, inputs, outputs));
  }

  // Returns whether the addend saves memory traffic. An addition that only elementwise nodes read, or whose addend an
  // elementwise node makes for it alone, is fused with these at no cost; as an addend of a product, the tensor would have to be
  // written to memory first.
  bool pays(const Node& add, const Match& match) const {
    const ValueId sum = add.outputs[0];
    const auto& readers = uses_.readers(sum);
    const bool joins_readers = !kept_.contains(sum) &&
                               std::ranges::all_of(readers, [&](NodeId id) { return stays_elementwise(id); });
    if (joins_readers) return false;
    const Node* maker = producer(graph_, match.addend);
    return !maker || !uses_.single(match.addend) || !stays_elementwise(id_of(graph_, *maker));
  }

  bool stays_elementwise(NodeId id) const {
    return graph_.node(id).op->info.elementwise && !matches_.contains(id.index);
  }

  int32_t position(const Node& node) const { return id_of(graph_, node).index; }

  // Returns where in the graph the value is computed: a sum that becomes part of a product is computed with it.
  int32_t made_at(ValueId value) const {
    const Node* maker = producer(graph_, value);
    if (!maker) return -1;
    const auto match = matches_.find(position(*maker));
    return position(match == matches_.end() ? *maker : *match->second.top);
  }

  const Graph& graph_;
  const PassContext& context_;
  const Uses uses_;
  const std::vector<bool> live_;
  std::set<ValueId> kept_;  // outputs and updates
  std::map<int32_t, Match> matches_;
};

void emit_product(Rewriter& rewriter, const Node& add, const Match& match) {
  std::vector<Value> inputs = rewriter.map(match.product->inputs);
  inputs.push_back(rewriter.map(match.addend));
  rewriter.begin_nodes_from({match.product, &add, match.product});  // named after the product
  const std::vector<Value> sum =
      emit_node(*match.product->op, attributes_with_addend(*match.product), inputs);
  rewriter.end_nodes_from();
  rewriter.replace(*match.product, sum);
}

}  // namespace

// Puts the sum where the product was, so that the product's inputs do not live longer than before.
Graph fuse_addend(const Graph& graph, const PassContext& context) {
  const std::map<int32_t, Match> matches = Finder(graph, context).run();
  if (matches.empty()) return graph.share();
  std::map<const Node*, const Node*> additions, sums;  // by product; by top
  for (const auto& [index, match] : matches)
    additions[match.product] = sums[match.top] = &graph.node({index});
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (matches.contains(static_cast<int32_t>(i))) continue;
    const auto at = additions.find(&node);
    if (at == additions.end())
      rewriter.copy(node);
    else
      emit_product(rewriter, *at->second, matches.at(id_of(graph, *at->second).index));
    if (const auto sum = sums.find(&node); sum != sums.end())
      rewriter.replace(*sum->second, {rewriter.map(node.outputs[0])});
  }
  return rewriter.finish();
}

}  // namespace genesis::passes
