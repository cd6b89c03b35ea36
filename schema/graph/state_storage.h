// How a session keeps its states, which is apart from what they mean. A state *means* a tensor, for example an
// f32[4096,1024] named "model.layers.0.mlp.up_proj.weight": files, checkpoints, Session::state and
// genesis-run see nothing else. It is *kept* as that tensor, or encoded: one after the other with others in
// parts, which are states of the session that no model and no file has.
//
// A StateFormat is a row that says which parts there are and turns values into them and back. Passes choose
// formats for a model and rewrite graphs to read and write parts; executor/states/state_memory moves the bytes and
// asks the row for everything else. docs/architecture.md tells how quantised weights and shards use it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "schema/graph/model.h"

namespace genesis {

// One kind of numbers that a format makes: one element for every `values_each` values along the last axis,
// which is 1 for halves and quants, and 32 for the scale that a block of 32 shares.
struct FormatPart {
  std::string_view suffix;  // of the part's name: ".upper"
  DType dtype;
  int64_t values_each = 1;
};

struct StateFormat {
  static constexpr size_t kMaxParts = 4;
  using Parts = std::array<std::byte*, kMaxParts>;
  using ConstParts = std::array<const std::byte*, kMaxParts>;

  std::string_view name;
  DType meant;                    // of the values
  std::vector<FormatPart> parts;  // at most kMaxParts
  int64_t block = 1;              // values that are encoded together: `count` below is a multiple
  void (*encode)(const std::byte* values, int64_t count, const Parts& parts);
  void (*decode)(const ConstParts& parts, int64_t count, std::byte* values);

  // Bytes that `values` values take in a part.
  int64_t part_bytes(size_t part, int64_t values) const;
};

// f32 as bf16 and the bits that bf16 drops, bit for bit (schema/core/halves.h). Parts: upper, lower.
const StateFormat& bf16_halves_format();

// States that are kept in the same parts, one behind the other along their first axis.
struct StoredGroup {
  const StateFormat* format = nullptr;
  std::vector<int32_t> members;  // states of the model
  std::vector<int32_t> parts;    // states that add_parts() adds, one for each part of the format
};

// Of a model: the states that are not kept as what they mean.
struct StateStorage {
  std::vector<StoredGroup> groups;

  bool empty() const { return groups.empty(); }
  std::vector<int32_t> members() const;  // of all groups, sorted
};

// Numbers the parts of all groups as the states that add_parts() will add behind `states` others.
void number_parts(StateStorage& storage, size_t states);
// Adds the parts to the states of `model`: named as the first member with the part's suffix, zeros to start.
void add_parts(Model& model, const StateStorage& storage);

}  // namespace genesis
