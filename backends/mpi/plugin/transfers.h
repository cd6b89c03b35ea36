// Messages between ranks that are under way together: posted one by one, waited for at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/mpi/plugin/mpi_world.h"

namespace genesis::mpi {

// Ranks are those of the run. Messages between two ranks with one tag arrive in the order they were sent. What is posted
// must be waited for, unless the run has failed. Memory is promised to MPI as long as the object lives, and no longer: what a
// failure leaves unfinished ends with it, or MPI is called no more (MpiWorld::give_up).
class Transfers {
 public:
  Transfers(MpiWorld& world, int tag) : world_(world), tag_(tag) {}
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(const std::byte* from, int64_t bytes, int to);
  void receive(std::byte* to, int64_t bytes, int from);
  // False, and a failure of the run that says `what` was waited for and for whom, when it takes longer than RankLimits::call,
  // when a rank fails or when one has left.
  bool wait(const std::string& what);

 private:
  struct Waiting;

  void post(int peer, bool is_receive, int64_t bytes, auto&& start);
  void cancel_receives();
  bool test(bool* done);
  bool poll(Waiting& waiting, const std::string& what);
  std::vector<int> unfinished_peers();
  std::string names_of(const std::vector<int>& peers) const;
  void say_waiting(const std::string& what, const std::vector<int>& missing);
  void fail_for(const std::string& what, const std::string& how);

  MpiWorld& world_;
  int tag_;
  bool was_cut_ = false;  // the run failed before all was posted
  std::vector<MPI_Request> requests_;
  // Of each request.
  std::vector<int> peers_;
  std::vector<bool> is_receive_;
};

}  // namespace genesis::mpi
