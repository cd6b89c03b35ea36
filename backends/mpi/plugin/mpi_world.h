// This process among the ranks of an MPI launch: the ranks, their messages about failing and leaving, and the one lock under
// which every MPI call is made. The lock is never held while waiting, so any thread may report a failure of the run while another
// one waits.
//
// A background thread sends a heartbeat to the next rank every second, however long the rank computes. If a rank is stopped, or
// its host is gone, it falls silent, and the next rank reports that the run has failed and which rank is lost, so that no rank
// waits for it to leave. Only time during which the listener itself runs counts as silence. Ranks of one host see through shared
// memory at once when one of them ends without notice, e.g. is killed: a launcher gives the others a second to report it.
//
// There are two communicators: one for the exchanges of data, and one for notices. A rank that fails sends the reason to all
// others, and one that ends sends that it leaves; a waiting rank polls for notices.
//
// Any MPI call makes progress on all transfers. So if a run has failed and a transfer cannot be completed or canceled, MPI is not
// called any more once the memory of the transfer may be freed.
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
  // Calls MPI_Init_thread, as all ranks must. Throws Error. The startup of MPI cannot be canceled: if a rank does not come within
  // RankLimits::start, this process ends with a message.
  explicit MpiWorld(const RankLimits& limits);
  // Announces that this rank leaves, and waits for the others to do so, except the lost ones: for RankLimits::call, or after a
  // failure for RankLimits::end. MPI is finalized only if the run succeeded. If give_up() has already announced and waited, that
  // counts.
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
  // Reports a failure to all other ranks; the first failure stays.
  void fail(const std::string& why);
  // Reports that this rank ends with an Error. If it is rank 0, the others hear of it even if the run has failed before.
  void abort(const std::string& why);
  bool first_says(const std::string& why);  // see RankLink::first_says
  // Receives the notices that have arrived.
  void listen();
  bool has_left(int rank) const;
  // For the transfers of a failed run, while their memory still exists: leaves as at the end of a run, until `is_done`, which is
  // called under the lock, returns true, i.e. MPI does not use that memory any more. If it never does, this process stops calling
  // MPI.
  void give_up(const std::function<bool()>& is_done);

  // Makes an MPI call under the lock. A result other than MPI_SUCCESS is a failure of the run, and false is returned. Returns
  // false without a call if this process has stopped calling MPI.
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
  void meet_neighbors();
  void look_at_neighbors();
  std::string error_of(int rank, const std::string& why) const;
  void fail_in_mpi(int error);
  bool keep_failure(const std::string& why);
  void say(int tag, const std::string& text);  // the caller holds the lock
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
  mutable std::mutex mutex_;          // guards MPI calls, left_, leaves_at_ and is_over_
  mutable std::mutex failure_mutex_;  // guards the texts
  std::atomic<bool> has_failed_ = false;
  std::string failure_, said_by_first_;
  std::set<int> left_;
  std::optional<std::chrono::steady_clock::time_point> leaves_at_;  // when this rank announced that it leaves
  bool is_over_ = false;                                            // MPI is not called any more
  std::atomic<bool> was_heard_ = false;   // a heartbeat of the previous rank has arrived since the last check
  MPI_Request alive_ = MPI_REQUEST_NULL;  // the heartbeat to the next rank
  std::list<Notice> notices_sent_;        // MPI reads them until they have arrived; elements of a list never move
  std::unique_ptr<HostRanks> neighbors_;  // ranks of this host; null: it has no shared memory

  std::mutex ending_mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::thread heart_;
};

}  // namespace genesis::mpi
