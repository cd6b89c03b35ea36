#include "executor/states/state_shards.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "schema/graph/state_cuts.h"

namespace genesis {
namespace {

// Assigns bytes to ranks: among the ranks that have them, the one that has been assigned the least so far.
class Division {
 public:
  explicit Division(const Mesh& mesh) : mesh_(mesh), bytes_(static_cast<size_t>(mesh.ranks())) {}

  StateOwners whole(int64_t bytes) {
    return {{give(bytes, [](int64_t) { return true; })}};
  }

  // The first cut may be strided (a piece of each of many runs); the cuts after it split the result into flat shards.
  StateOwners shared(const std::vector<Shard>& cuts, int64_t bytes) {
    if (cuts[0].owner)
      return {{give(bytes, [&](int64_t rank) { return mesh_.place(rank, cuts[0].axis) == *cuts[0].owner; })}};
    int64_t shards = 1;
    for (const Shard& cut : cuts) shards *= mesh_.size(cut.axis);
    StateOwners owners{{}, cuts[0].runs, shards / mesh_.size(cuts[0].axis)};
    for (int64_t shard = 0; shard < shards; ++shard)
      owners.ranks.push_back(
          give(bytes / shards, [&](int64_t rank) { return shard_of(rank, cuts) == shard; }));
    return owners;
  }

 private:
  // Returns the index of the rank's shard among all shards; the last cut varies fastest.
  int64_t shard_of(int64_t rank, const std::vector<Shard>& cuts) const {
    int64_t shard = 0;
    for (const Shard& cut : cuts) shard = shard * mesh_.size(cut.axis) + mesh_.place(rank, cut.axis);
    return shard;
  }

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

bool StateShards::is_mine(int32_t state) const {
  if (owners.empty()) return true;
  const std::vector<int64_t>& all = owners[static_cast<size_t>(state)].ranks;
  return std::ranges::find(all, rank) != all.end();
}

// Assigns the largest states first, so that the smaller ones even out the rest.
StateShards divide_states(const Model& model, const StateStorage& storage, const Mesh& mesh, int64_t rank) {
  const std::map<int32_t, std::vector<Shard>> cuts = cuts_of_states(model, storage);
  std::vector<int32_t> order(model.states().size());
  std::iota(order.begin(), order.end(), 0);
  const auto bytes_of = [&](int32_t state) { return model.state(state).type.bytes(); };
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return bytes_of(a) > bytes_of(b); });
  StateShards shards{rank, mesh.ranks(), std::vector<StateOwners>(order.size())};
  Division division(mesh);
  for (const int32_t state : order) {
    if (model.state(state).role == StateRole::kCache) continue;
    const auto cut = cuts.find(state);
    shards.owners[static_cast<size_t>(state)] =
        cut == cuts.end() ? division.whole(bytes_of(state)) : division.shared(cut->second, bytes_of(state));
  }
  return shards;
}

}  // namespace genesis
