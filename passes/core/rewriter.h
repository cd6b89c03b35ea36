// The Rewriter changes a graph: it walks the old graph and writes a new one node by node, copying or replacing each. Names are kept;
// types are inferred for new nodes, and for copies that read other types. A node that replaces others carries the names of the
// author's nodes that it stands for.
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
  // Gives the new graph the old one's model, name and inputs. `old` must outlive the Rewriter.
  explicit Rewriter(const Graph& old);
  // Does the same, with input_types[i] as the type of input i.
  Rewriter(const Graph& old, const std::vector<TensorType>& input_types);

  const Graph& old() const { return old_; }
  Graph& graph() {
    catch_up();
    return graph_;
  }

  // Returns the new value for an old one; the node that makes it must have been copied or replaced before.
  Value map(ValueId old_value);
  std::vector<Value> map(const std::vector<ValueId>& old_values);

  void copy(const Node& node);
  void copy_with(const Node& node, const Attributes& attributes);
  // Replaces the node's outputs by values of the new graph; an empty value stands for an output that nothing reads.
  void replace(const Node& node, const std::vector<Value>& values);

  // Replaces one value for the nodes that are copied from now on, until it is replaced again.
  void replace(ValueId old_value, Value value) {
    catch_up();
    new_values_[static_cast<size_t>(old_value.index)] = value;
  }

  // Says that the nodes added from now on come from `nodes`: the first gives the authored name, the last the scope of their
  // names.
  void begin_nodes_from(const std::vector<const Node*>& nodes);
  void end_nodes_from();
  // Does the same inside rewrite(), for the rest of this visit.
  void from_nodes(const std::vector<const Node*>& nodes) {
    catch_up();
    end_nodes_from();
    begin_nodes_from(nodes);
  }

  // Leaves the state unchanged: the new graph has no update of it.
  void drop_update(int32_t state) {
    catch_up();
    dropped_updates_.insert(state);
  }

  // Begins the visit of old node `index`, while this one and those before it may not have been copied yet: the first call that needs
  // the new graph copies those before it, and the node counts as the source of what is added then.
  void begin_visit(size_t index) { visited_ = index; }
  // Copies those nodes, and returns how many nodes the new graph then had.
  size_t catch_up();
  // Ends the visit. Returns false if nothing needed the new graph; then the node stays behind, too.
  bool end_visit();
  // Returns true if no visit needed the new graph, so that it would equal the old one.
  bool is_unchanged() const { return is_unchanged_; }

  Graph finish();  // adds the outputs and updates

 private:
  void copy_by(const Node& node, const std::function<std::vector<Value>(const std::vector<Value>&)>& add);
  void map_outputs(const Node& node, const std::vector<Value>& values);

  const Graph& old_;
  Graph graph_;
  std::vector<Value> new_values_;  // by old value id
  std::set<int32_t> dropped_updates_;
  bool in_scope_ = false;
  RewriteLog log_;
  std::optional<size_t> visited_;  // the node of a visit that has not needed the new graph yet
  size_t next_ = 0;                // the first node that is neither copied nor replaced, if there are visits
  size_t caught_up_at_ = 0;        // nodes of the new graph when the visit first needed it
  bool is_unchanged_ = true;
};

// The values that replace a node's outputs; empty: the node is copied.
using Replacement = std::optional<std::vector<Value>>;

// Calls `visit` for every node. Nodes are copied once a visit needs the new graph; if none does, the result shares the contents of
// `graph`. The nodes that it adds count as made from that node, and from others if `visit` calls
// from_nodes(). A replacement that `target` cannot run is dropped and the node copied (no check without a target or with
// unknown sizes). Removes the nodes that nothing needs afterwards.
Graph rewrite(const Graph& graph, const std::function<Replacement(Rewriter&, const Node&)>& visit,
              const Target* target = nullptr);
// Does the same for a rule that needs the readers of values in `graph`.
Graph rewrite(const Graph& graph, Replacement (*visit)(Rewriter&, const Uses&, const Node&),
              const Target* target = nullptr);

// Returns the graph without the nodes that neither an output nor an update needs.
Graph without_dead_nodes(const Graph& graph);

// Compares graphs up to ids: the same inputs, nodes, names, outputs and updates in the same order.
bool same_graph(const Graph& a, const Graph& b);

// Returns the names of the author's nodes that a node stands for: its origins, or its own name.
std::vector<std::string> origins_of(const Node& node);

}  // namespace genesis::passes
