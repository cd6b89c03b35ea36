// Messages between ranks that are in flight together: posted one by one, waited for at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/mpi/plugin/mpi_world.h"

namespace genesis::mpi {

// Ranks are numbered within the run. Messages between two ranks with one tag arrive in the order in which they were sent. After
// posting, wait() must be called, unless the run has failed. MPI may use the memory only during the lifetime of the object:
// transfers that a failure leaves unfinished are ended by the destructor, or MPI is not called any more (MpiWorld::give_up).
class Transfers {
 public:
  Transfers(MpiWorld& world, int tag) : world_(world), tag_(tag) {}
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void send(const std::byte* from, int64_t bytes, int to);
  void receive(std::byte* to, int64_t bytes, int from);
  // Waits for all messages. Returns false, with a failure of the run that names `what` and the missing ranks, if this takes
  // longer than RankLimits::call, or if a rank fails or has left.
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
  bool was_cut_ = false;  // the run failed before everything was posted
  std::vector<MPI_Request> requests_;
  // By request.
  std::vector<int> peers_;
  std::vector<bool> is_receive_;
};

}  // namespace genesis::mpi
