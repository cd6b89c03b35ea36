// Runs sharded updates: those whose moments the context's storage keeps as shards over the ranks along "data". A rank updates its
// shard of these moments and of the parameter. The storage of the parameter decides what else happens:
//
//   f32, whole                   the rank slices its shard; the new parameter is gathered from all ranks
//   f32, a shard                 the new parameter is gathered only if another node reads it
//   in parts, rounded one whole  the rank slices its range of the rounded part; the new one is gathered, half the traffic
//   in parts, all sharded        nothing is gathered
//
// "In parts" means the parts of a format (schema/graph/state_storage.h). Many parameters are gathered by one exchange. Adam
// updates with the same lr, step and scale become one node if their parameters are gathered together.
#pragma once

#include <map>
#include <vector>

#include "passes/core/adam_updates.h"
#include "passes/core/analysis.h"
#include "passes/core/pass.h"
#include "passes/core/update_inputs.h"

namespace genesis::passes {

class ShardedUpdates {
 public:
  // The arguments must outlive the object. `context.storage` may be null: then no update is sharded.
  ShardedUpdates(const Graph& graph, const PassContext& context, Rewriter& rewriter);

  // Returns whether the node is such an update.
  bool contains(const Node& node) const;
  // Replaces the node; `gradient` is this rank's flat shard. The update may be emitted later, together with others.
  void emit(const Node& node, Value gradient);
  // Returns whether the node reads a parameter that is still to be gathered.
  bool is_awaited_by(const Node& node) const;
  // Emits and gathers everything that is left of the updates so far.
  void finish();

 private:
  // A group of weights stored in parts, with the updates of its members that have been reached.
  struct Stored {
    const StoredGroup* group;
    std::map<int32_t, std::pair<const Node*, Value>> updates = {};  // by member, with the gradient's shard
  };
  // An update of a plain parameter that waits for others.
  struct Plain {
    const Node* node;
    Value gradient;  // this rank's shard
  };
  // A new parameter, or the rounded part of a group, as ranges that are to be gathered.
  struct ToGather {
    const Node* update = nullptr;        // update of a parameter; null for a group
    const StoredGroup* group = nullptr;  // group of weights; null for a parameter
    std::vector<const Node*> nodes;
    std::vector<Value> ranges;
  };

  // Returns this rank's shard of a whole value, flat.
  Value shard_of(Value whole) const;
  // Returns this rank's shard of a moment, which the storage keeps.
  Value moment(ValueId value);
  // Makes `moments` the new values of this rank's shards of the node's moments.
  void add_moments(const Node& node, const std::vector<Value>& moments);
  Value parameter_shard(const Node& node);
  // Returns whether the new parameter must be gathered: another node reads it, or every rank keeps it whole.
  bool is_gathered(const Node& node) const;
  void emit_plain(const Node& node, Value gradient);
  void emit_ready();
  // Adds the operands of one Adam update: the shards of the gradient and of both moments.
  void add_operands(UpdateOperands& operands, const Node& adam, Value gradient);
  void emit_plain_together(const std::vector<Plain>& all);
  void add_new_shard(const Node& node, const std::vector<Value>& results);
  void emit_stored_together(const std::vector<const Stored*>& groups);
  std::vector<Value> ranges_of(const StoredGroup& group, size_t part);
  void add_new_part(const StoredGroup& group, size_t part, std::vector<const Node*> nodes,
                    std::vector<Value> ranges);
  void gather();
  void set_gathered(const ToGather& item, const std::vector<Value>& values);

  const Graph& graph_;
  const int64_t ranks_, place_, bucket_bytes_;
  const Uses uses_;
  Rewriter& rewriter_;
  std::map<int32_t, int32_t> shards_;     // by state: the state that holds this rank's plain shard of it
  std::map<int32_t, Stored*> stored_of_;  // by member
  std::vector<Stored> stored_;
  std::vector<const Stored*> ready_;  // groups whose updates have all been reached
  std::vector<Plain> plain_;          // updates that wait for others
  std::vector<ToGather> to_gather_;   // values to be gathered
  int64_t bytes_ = 0;                 // size of to_gather_ and of the updates that wait
};

}  // namespace genesis::passes
