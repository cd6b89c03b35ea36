// Updates of which one of the ranks along "data" does a part: of the moments that the context's storage keeps as shards, and
// of their parameters. What a rank has of a parameter is seen from the storage:
//
//   f32, whole           its part is cut out; the new parameter is gathered from all ranks
//   f32, a shard         nothing is gathered, but for who else reads the new parameter
//   halves, upper whole  the part of the upper one is cut out, and the new upper one gathered: half the traffic
//   halves, shards       nothing is gathered
//
// Parameters travel many at a time. Updates of halves that share lr, step and scale are one node as far as they travel
// together. Used by shard_optimizer.
#pragma once

#include <map>
#include <vector>

#include "passes/core/adam_updates.h"
#include "passes/core/analysis.h"
#include "passes/core/pass.h"
#include "passes/core/update_inputs.h"

namespace genesis::passes {

class PartUpdates {
 public:
  // All of them outlive this. `context.storage` may be null: then there are none.
  PartUpdates(const Graph& graph, const PassContext& context, Rewriter& rewriter);

  // Whether the node is such an update.
  bool contains(const Node& node) const;
  // In its place; `gradient`: this rank's part, flat. It may be done later, with others.
  void emit(const Node& node, Value gradient);
  // Whether the node reads a parameter that is still to be gathered.
  bool is_awaited_by(const Node& node) const;
  // Everything that is left of the updates emitted so far.
  void finish();

 private:
  // A group of halves, with those of its members' updates that have come.
  struct Halves {
    const StoredGroup* group;
    std::map<int32_t, std::pair<const Node*, Value>> updates = {};  // by member, with the gradient's part
  };
  // A new parameter, or the upper half of a group, in parts.
  struct Whole {
    const Node* update = nullptr;        // of a parameter
    const StoredGroup* group = nullptr;  // of halves
    std::vector<const Node*> nodes;
    std::vector<Value> parts;
  };

  // This rank's part of a whole value, flat.
  Value part_of(Value whole) const;
  Value moment(ValueId value);
  void add_moments(const Node& node, const std::vector<Value>& moments);
  void emit_plain(const Node& node, Value gradient);
  void emit_ready();
  void emit_together(const std::vector<const Halves*>& halves);
  Value upper_part(const StoredGroup& group);
  void add_new_halves(const StoredGroup& group, std::vector<const Node*> nodes, Value upper, Value lower);
  void gather();
  void put(const Whole& whole, const std::vector<Value>& values);

  const Graph& graph_;
  const int64_t ranks_, place_, bucket_bytes_;
  const Uses uses_;
  Rewriter& rewriter_;
  std::map<int32_t, int32_t> shards_;     // by state: the one that has this rank's part of it, plain
  std::map<int32_t, Halves*> halves_of_;  // by member
  std::vector<Halves> halves_;
  std::vector<const Halves*> ready_;  // whose updates have all come
  std::vector<Whole> wholes_;         // to be gathered
  int64_t bytes_ = 0;                 // of those, and of what is ready
};

}  // namespace genesis::passes
