// Ranks of one host that tell each other, in memory that they share, that they are there and what has failed: for runs of
// which nothing else carries words while they compute, as that of ranks on GPUs that torchrun's variables name. Ranks of
// other hosts are not seen.
//
// The memory has a name only until all ranks have it, or one of them gives up, so nothing of it stays behind.
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
    std::string
        address;  // that all ranks of the run have, and no other run on this host at the time: "HOST:PORT"
    std::string device = "";  // that no other rank may have, of up to 79 bytes; empty: it does not matter
  };

  // Null where the host has no memory to share. A rank that says nothing for `silence` seconds is lost.
  static std::unique_ptr<HostRanks> open(const Self& self, double silence);
  ~HostRanks();  // leaves
  HostRanks(const HostRanks&) = delete;
  HostRanks& operator=(const HostRanks&) = delete;

  // Once all ranks have come this far: names two of this host that have one device; empty where no two have.
  std::string who_share_a_device() const;

  // Which memory this is: ranks that say the same share it.
  const std::string& place() const { return place_; }
  // Looks at the ranks with the same place from now on. `places` of all ranks, by rank, said when they had theirs.
  void watch(const std::vector<std::string>& places);

  // Says that this rank is there, and what is wrong with another one: it has failed, ended without a word, or says nothing;
  // empty: nothing is. To be called several times a second, by one thread.
  std::string failure();
  // Whom failure() has named last; -1: nobody.
  int failed_rank() const { return failed_rank_; }
  // The run has failed: the others' failure() is this text. Any thread may call it; the first text stays.
  void fail(const std::string& why);
  // Nobody waits for this rank any more, nor is anything wrong when it ends; but where it has failed.
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
  std::mutex mutex_;  // around others_ and what this rank says
  std::vector<Other> others_;
  double looked_at_ = 0;
  int failed_rank_ = -1;
  bool is_nameless_ = false;  // all ranks have the memory, and one of them has taken its name away
};

}  // namespace genesis
