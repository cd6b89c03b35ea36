// The ranks of this run, seen from one of them: who it is, the mesh they stand in, what they agree on, and the collectives of
// their devices. Trainers and tools have one; with one rank it does nothing and needs nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/rank_link.h"
#include "executor/distributed/launch.h"

namespace genesis {

RankLimits default_limits();  // as GENESIS_COLLECTIVE_TIMEOUT says

struct WorldOptions {
  RankLimits limits = default_limits();
};

class World {
 public:
  // One rank.
  World() = default;
  World(Mesh mesh, Launch launch, std::unique_ptr<RankLink> link);
  // The others hear that this rank has ended: those that still wait for it fail.
  ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return launch_.rank; }
  int size() const { return launch_.size; }
  int local_rank() const { return launch_.local_rank; }
  int gpu() const { return launch_.gpu; }  // where the ranks are on GPUs: the N of this rank's cuda:N
  bool is_first() const { return rank() == 0; }
  const std::string& host() const { return hosts_[static_cast<size_t>(rank())]; }
  const Mesh& mesh() const { return mesh_; }
  // "rank 3 (host gpu7)"
  std::string name(int rank) const { return rank_name(rank, hosts_[static_cast<size_t>(rank)]); }

  // Of this rank's device; null where there is one rank.
  Collectives* collectives() const { return collectives_.get(); }

  // All ranks call these, in the same order. They throw Error when a rank has failed or does not come in time.
  std::vector<std::string> gather(const std::string& mine);  // every rank's text, in the order of ranks
  void barrier() { gather(""); }
  // Throws the same Error on all ranks, naming those whose text differs from rank 0's: "the model file differs between ranks".
  // With an axis of the mesh each is compared with the first rank of its group along that axis instead.
  void require_same(const std::string& what, const std::string& text, std::string_view axis = {});

  // Throws Error when an exchange has failed since; a runner's caller asks after each run.
  void check() const;
  // The other ranks end with this as their Error. Any thread may call it.
  void abort(const std::string& why);
  // Behind abort(why): whether rank 0 ends with the same Error and has said it for this rank, too.
  bool first_says(const std::string& why) { return link_ && !is_first() && link_->first_says(why); }

 private:
  Mesh mesh_;
  Launch launch_;
  std::vector<std::string> hosts_ = {"localhost"};
  std::unique_ptr<RankLink> link_;
  std::unique_ptr<Collectives> collectives_;
};

// Joins the ranks that a launcher started; `device_kind` is "cpu" or "cuda". Throws Error where the launcher started another
// number of ranks than the mesh has, or where what carries their data is missing.
std::shared_ptr<World> start_world(const Mesh& mesh, std::string_view device_kind,
                                   const WorldOptions& options = {});

}  // namespace genesis
