// How a pass changes a graph: a Rewriter walks the old graph and writes a new one, node by node, each either
// copied or replaced. Types are inferred again at every addition, names are kept, and a node that replaces
// another carries the names of the author's nodes it came from. Nothing else in passes/ builds one graph from
// another.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "passes/core/rewrite_log.h"
#include "schema/graph/model.h"
#include "schema/graph/target.h"

namespace genesis::passes {

class Uses;

class Rewriter {
 public:
  // The new graph has the old one's model, name and inputs. `old` must outlive the Rewriter.
  explicit Rewriter(const Graph& old);
  // The same, with input i of the type input_types[i].
  Rewriter(const Graph& old, const std::vector<TensorType>& input_types);

  const Graph& old() const { return old_; }
  Graph& graph() { return graph_; }

  // The new value for an old one; the node that makes it must have been copied or replaced before.
  Value map(ValueId old_value);
  std::vector<Value> map(const std::vector<ValueId>& old_values);

  void copy(const Node& node);
  void copy_with(const Node& node, const Attributes& attributes);
  // Values of the new graph now stand for the node's outputs; an empty value for one that nobody reads.
  void replace(const Node& node, const std::vector<Value>& values);

  // The same for one value, until it is replaced again: what nodes copied from now on read.
  void replace(ValueId old_value, Value value) { new_values_[static_cast<size_t>(old_value.index)] = value; }

  // Nodes added from now on come from `nodes` (the first gives the authored name) and are named beside the
  // last.
  void begin_nodes_from(const std::vector<const Node*>& nodes);
  void end_nodes_from();
  // Inside rewrite(): the nodes added from now on for this visit come from `nodes`.
  void from_nodes(const std::vector<const Node*>& nodes) {
    end_nodes_from();
    begin_nodes_from(nodes);
  }

  // The state keeps its value: the new graph has no update of it.
  void drop_update(int32_t state) { dropped_updates_.insert(state); }

  Graph finish();  // maps outputs and updates

 private:
  void map_outputs(const Node& node, const std::vector<Value>& values);

  const Graph& old_;
  Graph graph_;
  std::vector<Value> new_values_;  // by old value id
  std::set<int32_t> dropped_updates_;
  bool in_scope_ = false;
  RewriteLog log_;
};

// Nothing: copy the node. Otherwise what replaces its outputs.
using Replacement = std::optional<std::vector<Value>>;

// Offers every node to `visit`; nodes it adds come from that node, and from others where `visit` says so with
// from_nodes. A replacement that `target` cannot run is not made (null, or sizes still symbolic: not asked).
// Nodes that nobody needs afterwards are dropped.
Graph rewrite(const Graph& graph, const std::function<Replacement(Rewriter&, const Node&)>& visit,
              const Target* target = nullptr);
// The same for a rule that asks who reads what of `graph`.
Graph rewrite(const Graph& graph, Replacement (*visit)(Rewriter&, const Uses&, const Node&),
              const Target* target = nullptr);

// The graph without the nodes that neither an output nor an update needs.
Graph without_dead_nodes(const Graph& graph);

// Equal up to ids: the same inputs, nodes, names, outputs and updates in the same order.
bool same_graph(const Graph& a, const Graph& b);

// The names of the author's nodes that a node stands for: its origins, or its own name.
std::vector<std::string> origins_of(const Node& node);

}  // namespace genesis::passes
