// The ranks of this run, seen from one of them: its own number, the mesh, agreement between ranks, and the collectives of their
// devices. With one rank it does nothing and needs nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/rank_link.h"
#include "executor/distributed/launch.h"
#include "executor/session_options.h"

namespace genesis {

RankLimits default_limits();  // includes GENESIS_COLLECTIVE_TIMEOUT

struct WorldOptions {
  RankLimits limits = default_limits();
};

class World {
 public:
  // Makes a world of one rank.
  World() = default;
  World(Mesh mesh, Launch launch, std::unique_ptr<RankLink> link);
  // Tells the others that this rank has ended; ranks that still wait for it fail.
  ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return launch_.rank; }
  int size() const { return launch_.size; }
  int local_rank() const { return launch_.local_rank; }
  int gpu() const { return launch_.gpu; }  // if the ranks run on GPUs: the N of this rank's cuda:N
  bool is_first() const { return rank() == 0; }
  const std::string& host() const { return hosts_[static_cast<size_t>(rank())]; }
  const Mesh& mesh() const { return mesh_; }
  // Returns e.g. "rank 3 (host gpu7)".
  std::string name(int rank) const { return rank_name(rank, hosts_[static_cast<size_t>(rank)]); }

  // Returns the collectives of this rank's device; null if there is one rank.
  Collectives* collectives() const { return collectives_.get(); }

  // Collective calls: all ranks call them in the same order. They throw Error if a rank has failed or does not arrive in time.
  std::vector<std::string> gather(const std::string& mine);  // returns every rank's text, by rank
  void barrier() { gather(""); }
  std::string said_by_first(const std::string& mine);  // returns rank 0's text on all ranks
  bool agreed_by_first(bool mine) { return said_by_first(mine ? "yes" : "no") == "yes"; }
  // Throws the same Error on all ranks if texts differ, e.g. "the model file differs between ranks", and names the ranks whose
  // text differs from that of rank 0. With a mesh axis, each rank is compared with the first rank of its group along that axis
  // instead.
  void require_same(const std::string& what, const std::string& text, std::string_view axis = {});

  // Throws Error if an exchange has failed. The caller of a runner checks after each run.
  void check() const;
  // Makes the other ranks fail with this text as their Error. Any thread may call it.
  void abort(const std::string& why);
  // Call it after abort(why): returns true if rank 0 ends with the same Error and has reported it for this rank too.
  bool first_says(const std::string& why) { return link_ && !is_first() && link_->first_says(why); }

 private:
  Mesh mesh_;
  Launch launch_;
  std::vector<std::string> hosts_ = {"localhost"};
  std::unique_ptr<RankLink> link_;
  std::unique_ptr<Collectives> collectives_;
};

// Joins the ranks that a launcher started; `device_kind` is "cpu" or "cuda". Throws Error if the launcher started another number
// of ranks than the mesh has, or if the library for their exchanges is missing.
std::shared_ptr<World> start_world(const Mesh& mesh, std::string_view device_kind,
                                   const WorldOptions& options = {});

// Returns the options of this rank's session: with its mesh, its rank, its collectives and its device.
SessionOptions options_of_rank(SessionOptions options, const std::shared_ptr<World>& world);

}  // namespace genesis
