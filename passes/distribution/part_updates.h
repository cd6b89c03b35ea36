// Updates of which one of the ranks along "data" does a part: of the moments that the context's storage keeps as shards, and
// of their parameters. What a rank has of a parameter is seen from the storage:
//
//   f32, whole                its part is cut out; the new parameter is gathered from all ranks
//   f32, a shard              nothing is gathered, but for who else reads the new parameter
//   stored, a part rounded    that part is whole: a rank's range of it is cut out, and the new one gathered, half the traffic
//   stored, shards            nothing is gathered
//
// Stored: in the parts of a format (schema/graph/state_storage.h). Parameters travel many at a time. Updates by Adam
// that share lr, step and scale are one node as far as they travel together. Used by shard_optimizer.
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
  // A group of weights, with those of its members' updates that have come.
  struct Stored {
    const StoredGroup* group;
    std::map<int32_t, std::pair<const Node*, Value>> updates = {};  // by member, with the gradient's part
  };
  // An update of a parameter in f32 that waits for others.
  struct Plain {
    const Node* node;
    Value gradient;  // its part
  };
  // A new parameter, or the rounded part of a group, in ranges.
  struct Whole {
    const Node* update = nullptr;        // of a parameter
    const StoredGroup* group = nullptr;  // of weights
    std::vector<const Node*> nodes;
    std::vector<Value> parts;
  };

  // This rank's part of a whole value, flat.
  Value part_of(Value whole) const;
  Value moment(ValueId value);
  void add_moments(const Node& node, const std::vector<Value>& moments);
  Value parameter_part(const Node& node);
  // The new parameter, which another node reads, or every rank keeps whole.
  bool is_gathered(const Node& node) const;
  void emit_plain(const Node& node, Value gradient);
  void emit_ready();
  // The gradient's part, and the parts of both moments.
  void add_operands(UpdateOperands& operands, const Node& adam, Value gradient);
  void emit_plain_together(const std::vector<Plain>& all);
  void add_new_part(const Node& node, const std::vector<Value>& results);
  void emit_together(const std::vector<const Stored*>& groups);
  std::vector<Value> ranges_of(const StoredGroup& group, size_t part);
  void add_new_part(const StoredGroup& group, size_t part, std::vector<const Node*> nodes,
                    std::vector<Value> ranges);
  void gather();
  void put(const Whole& whole, const std::vector<Value>& values);

  const Graph& graph_;
  const int64_t ranks_, place_, bucket_bytes_;
  const Uses uses_;
  Rewriter& rewriter_;
  std::map<int32_t, int32_t> shards_;     // by state: the one that has this rank's part of it, plain
  std::map<int32_t, Stored*> stored_of_;  // by member
  std::vector<Stored> stored_;
  std::vector<const Stored*> ready_;  // whose updates have all come
  std::vector<Plain> plain_;          // that wait for others
  std::vector<Whole> wholes_;         // to be gathered
  int64_t bytes_ = 0;                 // of those, and of what is ready
};

}  // namespace genesis::passes
