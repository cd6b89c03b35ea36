// The connection of this process to the other ranks of a run, whatever carries it: who they are, short texts for all of
// them, and the groups that kernels exchange data in. backends/mpi and backends/cuda/nccl implement it;
// executor/distributed makes one. One thread uses a link, abort() aside.
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

// How long ranks wait for each other, in seconds. From a rank's failure to the end of all others at most `silence` and `end`
// pass, and a beat or two: launchers need some of the 30 s that a run may take to end for themselves.
struct RankLimits {
  double call = 600;   // an exchange; a rank that comes later is taken for lost
  double start = 120;  // until all ranks have joined; never longer than `call`
  double end = 5;      // at the end of a run that failed, so that every rank that is there can say why
  // Of a process, which says every second that it is there: after this it was stopped, or its host is gone.
  double silence = 12;
  double patience = 30;  // after which the first of the ranks that wait for another one says so on stderr
};

class RankLink {
 public:
  virtual ~RankLink() = default;
  virtual int rank() const = 0;  // from 0
  virtual int size() const = 0;

  // Every rank's text, in the order of ranks. All ranks call it. Throws Error.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // Groups along the axes of a mesh of size() ranks, which live no longer than the link. All ranks call it, with the same
  // mesh. Throws Error.
  virtual std::unique_ptr<Collectives> collectives(const Mesh& mesh) = 0;

  // As Collectives say of themselves; what fails in the link's collectives has failed in the link.
  virtual std::string failure() const = 0;
  virtual void abort(const std::string& why) = 0;
  // Of another rank than 0, behind abort(why): whether rank 0 ends with the same Error. If so this returns when rank 0 has had the
  // time to say it for all, as a launcher may end it with the first rank that ends.
  virtual bool first_says(const std::string& /*why*/) { return false; }
};

// What the links' collectives share: a group for each axis, which the link's own class makes, and the link's failure.
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

// Whether these ranks are on one host, of which `hosts` has every rank's.
bool are_on_one_host(std::span<const int64_t> ranks, std::span<const std::string> hosts);

// Names two ranks that have one device, and it; empty where no two have. Both by rank; no device is said by "".
std::string who_share_a_device(std::span<const std::string> devices, std::span<const std::string> hosts);

// Of a clock that goes on at one pace and is never set, for how long ranks are waited for.
double steady_seconds();

// "rank 3 (host gpu7)", as messages name a rank.
std::string rank_name(int rank, const std::string& host);

}  // namespace genesis
