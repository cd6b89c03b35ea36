// How a session keeps its states, which is apart from what they mean. A state *means* a tensor, for example an
// f32[4096,1024] named "model.layers.0.mlp.up_proj.weight": files, checkpoints, Session::state and
// genesis-run see nothing else. It is *kept* as that tensor, or encoded: one after the other with others in
// parts, which are states of the session that no model and no file has.
//
// A StateFormat (schema/encoding/state_format.h) says which parts there are. Passes choose formats for a model and rewrite
// graphs to read and write parts; executor/states/state_memory moves the bytes and asks the format for everything else.
// docs/architecture.md tells how quantised weights and shards use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis {

// The format of a process's shard of the state; null: each keeps all of it, as the model has it encoded or no shard has its dtype.
const StateFormat* shard_format(const State& state);

// What a state starts from, decoded where it is encoded; zeros where it has nothing to start from.
Tensor initial_value(const State& state);

// Of a state's values, flat: those that this process keeps. The values are `runs` equal runs, one behind the other, and of
// each run it keeps `count` from `first` on. Every rank along `axis` of the mesh keeps as many, in the order of the axis,
// and all of them together the state. One run is a flat part of the whole, as the rows of a matrix; with as many runs as
// rows it is columns. Or one rank, the `owner`, keeps all values and the others none: a stage of a pipeline.
struct Shard {
  std::string axis;
  int64_t first = 0, count = 0;
  int64_t runs = 1;
  Shape shape = {};                   // of what this process keeps; without axes: it has one, with all values
  std::optional<int64_t> owner = {};  // its place on the axis; `count` is 0 elsewhere

  int64_t numel() const { return runs * count; }
  // Values of one byte or more each: from all `total` of them those that are kept; and from what all ranks keep, one behind
  // the other in the order of the axis, all `total`.
  void take(const std::byte* all, int64_t total, size_t value_bytes, std::byte* kept) const;
  void join(const std::byte* of_ranks, int64_t total, size_t value_bytes, std::byte* all) const;
};

// States that are kept in the same parts, one behind the other along their first axis; or shards of them. Of several members
// `shard` counts the values of all, in one run, and of each the same share is kept.
struct StoredGroup {
  const StateFormat* format = nullptr;
  std::vector<int32_t> members;  // states of the model
  std::vector<int32_t> parts;    // states that add_parts() adds, one for each part of the format
  std::optional<Shard> shard = {};
  size_t whole_parts = 0;  // so many of the first parts hold all values where the others hold the shard's

  bool is_shard(size_t part) const { return shard && part >= whole_parts; }
  // Of a member with `values` of the `all` values of the group.
  Shard shard_of(int64_t values, int64_t all) const;
};

// Of a model: the states that are not kept as what they mean.
struct StateStorage {
  std::vector<StoredGroup> groups;

  bool empty() const { return groups.empty(); }
  bool has_shards() const;
  std::vector<int32_t> members() const;  // of all groups, sorted
};

// The states that the model itself has encoded, each as it is.
StateStorage encoded_states(const Model& model);

// Numbers the parts of all groups as the states that add_parts() will add behind `states` others.
void number_parts(StateStorage& storage, size_t states);
// Adds the parts to the states of `model`: named as the first member with the part's suffix. They start from what the
// member is encoded as, where it is in this format, and else as zeros.
void add_parts(Model& model, const StateStorage& storage);

}  // namespace genesis
