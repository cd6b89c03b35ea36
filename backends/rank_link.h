// The connection of this process to the other ranks of a run: their identity, short texts gathered from all of them, and the
// groups in which kernels exchange data. backends/mpi and backends/cuda/nccl implement it; executor/distributed creates one. Only
// one thread may use a link, except for abort().
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/collectives.h"
#include "schema/ranks/mesh.h"

namespace genesis {

// Time limits in seconds for ranks that wait for each other. A failed run should end within 30 s. After one rank has failed, all
// ranks end within about `silence` + `end` seconds, which leaves the rest to launchers.
struct RankLimits {
  double call = 600;   // longest exchange; a rank that joins it later counts as lost
  double start = 120;  // longest wait until all ranks have joined; never longer than `call`
  double end = 5;      // time after a failure in which every rank that is alive can report why
  // Every process signals once per second that it is alive. After this time without a signal it counts as stopped, or its host as
  // gone.
  double silence = 12;
  double patience = 30;  // wait after which the first of the waiting ranks says on stderr for whom it waits
};

class RankLink {
 public:
  virtual ~RankLink() = default;
  virtual int rank() const = 0;  // from 0
  virtual int size() const = 0;

  // Returns every rank's text, in the order of ranks. All ranks must call it. Throws Error.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // Returns groups along the axes of a mesh of size() ranks; they must not outlive the link. All ranks must call it with the same
  // mesh. Throws Error.
  virtual std::unique_ptr<Collectives> collectives(const Mesh& mesh) = 0;

  // The same as in Collectives; a failure of the link's collectives is a failure of the link.
  virtual std::string failure() const = 0;
  virtual void abort(const std::string& why) = 0;
  // Returns true if rank 0 fails with the same Error, so that this rank does not have to report it. To be called after
  // abort(why), on ranks other than 0. It returns true only after rank 0 had the time to report the Error, since a launcher may
  // kill rank 0 when the first rank ends.
  virtual bool first_says(const std::string& /*why*/) { return false; }
};

// The common base of the collectives of links: a group for each axis, created by the derived class, and the link's failure.
template <class Group>
class LinkCollectives : public Collectives {
 public:
  RankGroup* group(std::string_view axis) override {
    const auto at = groups_.find(axis);
    return at == groups_.end() ? nullptr : &at->second;
  }
  std::string failure() const override { return link_.failure(); }
  void abort(const std::string& why) override { link_.abort(why); }

 protected:
  explicit LinkCollectives(RankLink& link) : link_(link) {}

  std::map<std::string, Group, std::less<>> groups_;  // by axis

 private:
  RankLink& link_;
};

// Returns true if these ranks are on one host. `hosts` has every rank's host.
bool are_on_one_host(std::span<const int64_t> ranks, std::span<const std::string> hosts);

// Returns a sentence that names two ranks with the same device, and the device, or an empty text if there are none. Both
// arguments are indexed by rank; the device "" stands for none.
std::string who_share_a_device(std::span<const std::string> devices, std::span<const std::string> hosts);

// Returns the seconds of a monotonic clock.
double steady_seconds();

// Returns e.g. "rank 3 (host gpu7)", the form used in messages.
std::string rank_name(int rank, const std::string& host);

}  // namespace genesis
