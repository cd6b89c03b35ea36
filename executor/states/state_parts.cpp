#include "executor/states/state_parts.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace genesis {
namespace {

// Of the states whose ranks keep parts.
std::map<int32_t, Shard> shards_of(const Model& model, const StateStorage& storage) {
  std::map<int32_t, Shard> shards;
  for (const StoredGroup& group : storage.groups) {
    if (!group.shard) continue;
    int64_t all = 0;
    for (const int32_t member : group.members) all += model.state(member).type.numel();
    for (const int32_t member : group.members)
      shards[member] = group.shard_of(model.state(member).type.numel(), all);
  }
  return shards;
}

// Gives bytes to the rank, of those that have them, which has been given the least.
class Division {
 public:
  explicit Division(const Mesh& mesh) : mesh_(mesh), bytes_(static_cast<size_t>(mesh.ranks())) {}

  StateOwners whole(int64_t bytes) {
    return {{give(bytes, [](int64_t) { return true; })}};
  }

  StateOwners shared(const Shard& shard, int64_t bytes) {
    if (shard.owner)
      return {{give(bytes, [&](int64_t rank) { return mesh_.place(rank, shard.axis) == *shard.owner; })}};
    StateOwners owners{{}, shard.runs};
    const int64_t parts = mesh_.size(shard.axis);
    for (int64_t part = 0; part < parts; ++part)
      owners.ranks.push_back(
          give(bytes / parts, [&](int64_t rank) { return mesh_.place(rank, shard.axis) == part; }));
    return owners;
  }

 private:
  template <class HasIt>
  int64_t give(int64_t bytes, const HasIt& has_it) {
    int64_t least = -1;
    for (int64_t rank = 0; rank < mesh_.ranks(); ++rank)
      if (has_it(rank) && (least < 0 || given(rank) < given(least))) least = rank;
    given(least) += bytes;
    return least;
  }
  int64_t& given(int64_t rank) { return bytes_[static_cast<size_t>(rank)]; }

  const Mesh& mesh_;
  std::vector<int64_t> bytes_;  // by rank
};

}  // namespace

bool StateParts::is_mine(int32_t state) const {
  if (owners.empty()) return true;
  const std::vector<int64_t>& all = owners[static_cast<size_t>(state)].ranks;
  return std::find(all.begin(), all.end(), rank) != all.end();
}

// The largest first, so that the smaller ones even out what is left.
StateParts divide_states(const Model& model, const StateStorage& storage, const Mesh& mesh, int64_t rank) {
  const std::map<int32_t, Shard> shards = shards_of(model, storage);
  std::vector<int32_t> order(model.states().size());
  std::iota(order.begin(), order.end(), 0);
  const auto bytes_of = [&](int32_t state) { return model.state(state).type.bytes(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return bytes_of(a) > bytes_of(b); });
  StateParts parts{rank, mesh.ranks(), std::vector<StateOwners>(order.size())};
  Division division(mesh);
  for (const int32_t state : order) {
    if (model.state(state).role == StateRole::kCache) continue;
    const auto shard = shards.find(state);
    parts.owners[static_cast<size_t>(state)] = shard == shards.end()
                                                   ? division.whole(bytes_of(state))
                                                   : division.shared(shard->second, bytes_of(state));
  }
  return parts;
}

}  // namespace genesis
