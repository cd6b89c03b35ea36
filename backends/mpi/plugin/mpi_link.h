// Implements RankLink for the ranks of an MPI launch.
#pragma once

#include <map>

#include "backends/mpi/plugin/mpi_group.h"

namespace genesis::mpi {

class MpiLink final : public RankLink {
 public:
  explicit MpiLink(const RankLimits& limits) : world_(limits) {}

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  std::vector<std::string> gather(const std::string& mine) override;
  std::unique_ptr<Collectives> collectives(const Mesh& mesh) override;
  std::string failure() const override;
  void abort(const std::string& why) override { world_.abort(why); }
  bool first_says(const std::string& why) override { return world_.first_says(why); }

 private:
  mutable MpiWorld world_;  // mutable, since asking for a failure receives messages
  int next_tag_ = 1;        // 0 is for texts
};

}  // namespace genesis::mpi
