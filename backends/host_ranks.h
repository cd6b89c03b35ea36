// Lets ranks of one host watch each other through shared memory: who is alive, and what has failed. Needed by runs in which ranks
// have no other means to exchange messages while they compute, such as ranks on GPUs started with torchrun's variables. Ranks of
// other hosts are not watched.
//
// The shared memory has a name only until all ranks have opened it, or one of them gives up, so none is left behind.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace genesis {

class HostRanks {
 public:
  struct Self {
    int rank, size;
    std::string host;
    std::string address;      // the same on all ranks, unique on this host: "HOST:PORT"
    std::string device = "";  // unique to this rank, up to 79 bytes; empty: unchecked
  };

  // Returns null if the host has no shared memory. A rank that is silent for `silence` seconds counts as lost.
  static std::unique_ptr<HostRanks> open(const Self& self, double silence);
  ~HostRanks();  // calls leave()
  HostRanks(const HostRanks&) = delete;
  HostRanks& operator=(const HostRanks&) = delete;

  // Names two ranks of this host that use the same device; empty if there are none. Call it once all ranks have come this far.
  std::string who_share_a_device() const;

  // Identifies the memory: ranks with the same place share it.
  const std::string& place() const { return place_; }
  // Starts to watch the ranks with the same place. `places` has every rank's place, by rank, exchanged after all have opened
  // theirs.
  void watch(const std::vector<std::string>& places);

  // Signals that this rank is alive, and returns what is wrong with another one (it has failed, ended without notice, or is
  // silent); empty: nothing. To be called several times a second, by one thread.
  std::string failure();
  // Returns the rank that failure() named last; -1: none.
  int failed_rank() const { return failed_rank_; }
  // Reports that the run has failed: failure() of the others returns this text. Any thread may call it; the first text stays.
  void fail(const std::string& why);
  // Ends the watch over this rank: its end is no longer an error. Has no effect after fail().
  void leave();

 private:
  struct Slot;
  struct Other {
    int rank;
    uint64_t beats = 0;
    double silent = 0;  // seconds
  };

  HostRanks(const Self& self, double silence, std::string name, int file, Slot* slots, std::string place);
  std::string failure_of(Other& other, double passed);
  bool has_ended(int rank) const;

  const Self self_;
  const double silence_;
  const std::string name_;
  const int file_;
  Slot* const slots_;  // by rank
  const std::string place_;
  std::mutex mutex_;  // guards others_ and this rank's message
  std::vector<Other> others_;
  double looked_at_ = 0;
  int failed_rank_ = -1;
  bool is_nameless_ = false;  // the name has been removed, after all ranks opened the memory
};

}  // namespace genesis
