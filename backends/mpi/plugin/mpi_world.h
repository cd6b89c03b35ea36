// This process among the ranks of an MPI launch: who they are, what they say of failing and leaving, and the one lock that
// every call of MPI is made under. The lock is never held while something is waited for, so any thread may say that the
// run has failed while another waits.
//
// However long a rank computes, a thread of its own says every second to the next rank that the process is there. One that is
// stopped, or whose host is gone, falls silent, and the next rank says that the run has failed and who is lost, so that
// nobody waits for its leaving. Only what passes while the listener itself runs counts as silence. Ranks of one host see in its
// memory at once when one of them ends without a word, be it killed: a launcher leaves the others a second to say so.
//
// Two communicators keep apart what ranks exchange (data) and what they say (notices): a rank that fails says why to all
// others, and one that ends says that it leaves; whoever waits listens now and then.
//
// Any call of MPI moves on all that is under way. So when a run has failed and a transfer of it cannot be ended, MPI is
// called no more from the moment on that the transfer's memory may go.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/host_ranks.h"
#include "backends/mpi/plugin/mpi_api.h"
#include "backends/rank_link.h"

namespace genesis::mpi {

class MpiWorld {
 public:
  // MPI_Init_thread; all ranks do. Throws Error. MPI's start cannot be given up: where a rank does not come within
  // RankLimits::start, this process ends with a line that says so.
  explicit MpiWorld(const RankLimits& limits);
  // Says that this rank leaves, and waits for the others to say so, the lost aside: for RankLimits::call, or after a failure
  // for RankLimits::end. Only a run in which all went well ends MPI in order. What give_up() has said and waited for counts.
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const RankLimits& limits() const { return limits_; }
  MPI_Comm data() const { return data_; }
  std::string name(int rank) const { return rank_name(rank, hosts_[static_cast<size_t>(rank)]); }

  bool has_failed() const { return has_failed_; }
  std::string failure() const;
  // The first failure stays; all others hear of it.
  void fail(const std::string& why);
  // This rank ends with an Error. Of rank 0's the others hear also where the run has failed before.
  void abort(const std::string& why);
  bool first_says(const std::string& why);  // RankLink::first_says
  // What the others have said by now.
  void listen();
  bool has_left(int rank) const;
  // For transfers of a run that has failed, while their memory is still there: leaves as at the end of a run, until `is_done`,
  // which is asked under the lock, says that MPI has nothing to do with that memory any more. If it never does, this process
  // calls MPI no more.
  void give_up(const std::function<bool()>& is_done);

  // An MPI call under the lock. What it returns, if not MPI_SUCCESS, is a failure of the run; then false. False, and no call,
  // where MPI is called no more.
  template <class Call>
  bool call(Call&& body) {
    int error;
    {
      const std::lock_guard lock(mutex_);
      if (is_over_) return false;
      error = body();
    }
    if (error != MPI_SUCCESS) fail_in_mpi(error);
    return error == MPI_SUCCESS;
  }

 private:
  struct Notice {
    std::string text;
    MPI_Request request;
  };

  std::vector<std::string> texts_of_all(const std::string& mine);
  void meet_neighbours();
  void look_at_neighbours();
  std::string error_of(int rank, const std::string& why) const;
  void fail_in_mpi(int error);
  bool keep_failure(const std::string& why);
  void say(int tag, const std::string& text);  // under the lock
  void hear(const MPI_Status& status);
  void beat();
  void lose(int rank, const std::string& why);
  void say_alive();
  void say_leaving();
  bool have_all_left() const;
  bool is_late() const;
  bool wait_for_leaving();

  RankLimits limits_;
  int rank_ = 0, size_ = 1;
  MPI_Comm data_ = MPI_COMM_NULL, notices_ = MPI_COMM_NULL;
  std::vector<std::string> hosts_;
  mutable std::mutex mutex_;          // around MPI, and what is said and heard: left_, leaves_at_, is_over_
  mutable std::mutex failure_mutex_;  // around the texts
  std::atomic<bool> has_failed_ = false;
  std::string failure_, said_by_first_;
  std::set<int> left_;
  std::optional<std::chrono::steady_clock::time_point> leaves_at_;  // when this rank said that it leaves
  bool is_over_ = false;                                            // MPI is called no more
  std::atomic<bool> was_heard_ = false;   // the rank before this one, since the last beat
  MPI_Request alive_ = MPI_REQUEST_NULL;  // to the rank behind it
  std::list<Notice> notices_sent_;        // MPI reads them until they have arrived, and a list moves nothing
  std::unique_ptr<HostRanks> neighbours_;  // the ranks of this host; null: it has no memory for them

  std::mutex ending_mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread heart_;
};

}  // namespace genesis::mpi
