// Describes how a session stores its states, independently of their meaning. A state *means* a tensor, for example an
// f32[4096,1024] named "model.layers.0.mlp.up_proj.weight": files, checkpoints, Session::state and genesis-run see only this
// tensor. A session *keeps* it as this tensor, or encoded: then a group of states is concatenated and stored in parts, which are
// extra states that exist only in the session, in no model and no file.
//
// A StateFormat (schema/encoding/state_format.h) defines the parts. Passes choose formats for a model and rewrite graphs to read
// and write parts; executor/states/state_memory moves the bytes and asks the format for everything else. docs/architecture.md
// describes how quantized weights and shards use it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schema/graph/model.h"

namespace genesis {

// Returns the format of a process's shard of the state. Null if the state cannot be sharded and every process keeps all of it:
// the model has it encoded, or shards do not support its dtype.
const StateFormat* shard_format(const State& state);

// Returns the initial value of a state, decoded if it is encoded; zeros if it has none.
Tensor initial_value(const State& state);

// Describes the values of a state that this process keeps, counted in the flattened state. The values consist of `runs` equal
// consecutive runs; of each run the process keeps `count` values starting at `first`. All ranks along `axis` of the mesh keep
// equally many, in the order of the axis, and together they keep the whole state. With one run the shard is a flat range, such as
// rows of a matrix; with as many runs as rows it is columns. Alternatively one rank, the `owner`, keeps all values and the others
// none: a stage of a pipeline.
struct Shard {
  std::string axis;
  int64_t first = 0, count = 0;
  int64_t runs = 1;
  Shape shape = {};                   // shape of the kept values; without axes: they are one flat axis
  std::optional<int64_t> owner = {};  // the owner's place on the axis; `count` is 0 on other ranks

  int64_t numel() const { return runs * count; }
  // take() copies the kept values from all `total` values. join() restores all `total` values from the kept values of all ranks,
  // which follow one another in the order of the axis. Both work on values of `value_bytes` bytes.
  void take(const std::byte* all, int64_t total, size_t value_bytes, std::byte* kept) const;
  void join(const std::byte* of_ranks, int64_t total, size_t value_bytes, std::byte* all) const;
};

// States that are kept in the same parts, concatenated along their first axis, or shards of such states. With several members,
// `shard` counts the values of all members in one run, and the same share of each member is kept.
struct StoredGroup {
  const StateFormat* format = nullptr;
  std::vector<int32_t> members;  // states of the model
  std::vector<int32_t> parts;    // states that add_parts() adds, one for each part of the format
  std::optional<Shard> shard = {};
  size_t whole_parts = 0;  // number of leading parts that hold all values; the others hold only the shard's

  bool is_shard(size_t part) const { return shard && part >= whole_parts; }
  // Returns the shard of a member that has `values` of the `all` values of the group.
  Shard shard_of(int64_t values, int64_t all) const;
};

// Lists the states of a model that are not kept as the tensor they mean.
struct StateStorage {
  std::vector<StoredGroup> groups;

  bool empty() const { return groups.empty(); }
  bool has_shards() const;
  std::vector<int32_t> members() const;  // members of all groups, sorted
};

// Returns the storage of the states that the model has encoded, each in its own format.
StateStorage encoded_states(const Model& model);

// Assigns state indices to the parts of all groups, counting on from the `states` existing ones, as add_parts() will add them.
void number_parts(StateStorage& storage, size_t states);
// Adds the parts to the states of `model`, named after the first member with the part's suffix. A part starts with the member's
// encoded values if they are in this format, otherwise with zeros.
void add_parts(Model& model, const StateStorage& storage);

}  // namespace genesis
