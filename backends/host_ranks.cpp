#include "backends/host_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <utility>

#include "backends/rank_link.h"

namespace genesis {
namespace {

constexpr size_t kLongestWord = 1000;  // bytes
constexpr size_t kLongestDevice = 79;
// The maximum seconds of silence counted for one check, so that a late check (this process was stopped, or had no core) does not
// declare others lost.
constexpr double kLongestLook = 4;

enum State : int { kAbsent = 0, kHere = 1, kLeft = 2, kFailed = 3 };

std::string name_of_memory(const HostRanks::Self& self) {
  std::string name = fmt::format("genesis-{}-{}-{}", ::geteuid(), self.address, self.size).substr(0, 200);
  std::ranges::replace(name, '/', '_');
  return "/" + name;
}

// Containers of one machine may have shared memory with the same inode number, each in its own file system; so the device number
// is included.
std::string place_of(const struct stat& file) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{} {} {}", boot, file.st_dev, file.st_ino);
}

// Returns the lock of the byte that stands for a rank. The system releases it when the process ends, for any reason.
struct flock lock_of(int rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

struct HostRanks::Slot {
  std::atomic<uint64_t> beats;
  std::atomic<int> state;
  char word[kLongestWord + 1];
  char device[kLongestDevice + 1];
};

std::unique_ptr<HostRanks> HostRanks::open(const Self& self, double silence) {
  const std::string name = name_of_memory(self);
  const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
  if (file < 0) return nullptr;
  const size_t bytes = sizeof(Slot) * static_cast<size_t>(self.size);
  struct stat about {};
  void* memory = MAP_FAILED;
  if (::fstat(file, &about) == 0 && about.st_uid == ::geteuid() &&
      ::ftruncate(file, static_cast<off_t>(bytes)) == 0)
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    ::close(file);
    return nullptr;
  }
  return std::unique_ptr<HostRanks>(
      new HostRanks(self, silence, name, file, static_cast<Slot*>(memory), place_of(about)));
}

HostRanks::HostRanks(const Self& self, double silence, std::string name, int file, Slot* slots,
                     std::string place)
    : self_(self),
      silence_(silence),
      name_(std::move(name)),
      file_(file),
      slots_(slots),
      place_(std::move(place)) {
  struct flock lock = lock_of(self_.rank);
  ::fcntl(file_, F_OFD_SETLK, &lock);
  Slot& mine = slots_[self_.rank];
  mine.beats = 0;
  std::memset(mine.device, 0, sizeof mine.device);
  self_.device.copy(mine.device, kLongestDevice);
  mine.state = kHere;
}

// A rank that ends before all ranks have opened the memory removes its name, since no other rank will.
HostRanks::~HostRanks() {
  leave();
  if (!is_nameless_) ::shm_unlink(name_.c_str());
  ::munmap(slots_, sizeof(Slot) * static_cast<size_t>(self_.size));
  ::close(file_);
}

void HostRanks::watch(const std::vector<std::string>& places) {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < self_.size; ++rank)
    if (rank != self_.rank && places[static_cast<size_t>(rank)] == place_)
      others_.push_back({rank, slots_[rank].beats});
  const bool is_first = std::ranges::none_of(others_, [&](const Other& o) { return o.rank < self_.rank; });
  if (is_first) ::shm_unlink(name_.c_str());
  is_nameless_ = true;
  looked_at_ = steady_seconds();
}

std::string HostRanks::failure() {
  const std::lock_guard lock(mutex_);
  ++slots_[self_.rank].beats;
  const double at = steady_seconds(), passed = std::min(at - std::exchange(looked_at_, at), kLongestLook);
  for (Other& other : others_)
    if (std::string why = failure_of(other, passed); !why.empty()) {
      failed_rank_ = other.rank;
      return why;
    }
  return "";
}

// Checks the lock before the state of the slot, since a rank that leaves sets its state first.
std::string HostRanks::failure_of(Other& other, double passed) {
  const Slot& slot = slots_[other.rank];
  const uint64_t beats = slot.beats;
  const bool was_heard = beats != std::exchange(other.beats, beats), ended = has_ended(other.rank);
  other.silent = was_heard ? 0 : other.silent + passed;
  const int state = slot.state;
  const std::string name = rank_name(other.rank, self_.host);
  if (state == kFailed) return {slot.word, ::strnlen(slot.word, kLongestWord)};
  if (state != kHere) return "";
  if (ended) return name + " has ended without a word";
  if (other.silent <= silence_) return "";
  return fmt::format("{} has said nothing for {:.0f} s: its process was stopped", name, other.silent);
}

// Returns false if the system does not support such locks.
bool HostRanks::has_ended(int rank) const {
  struct flock lock = lock_of(rank);
  return ::fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

void HostRanks::leave() {
  int here = kHere;
  slots_[self_.rank].state.compare_exchange_strong(here, kLeft);
}

void HostRanks::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  Slot& mine = slots_[self_.rank];
  if (mine.state != kHere) return;
  std::memset(mine.word, 0, sizeof mine.word);
  why.copy(mine.word, kLongestWord);
  mine.state = kFailed;
}

// Called after joining has failed, so ranks that have gone meanwhile count too.
std::string HostRanks::who_share_a_device() const {
  const std::vector<std::string> hosts(static_cast<size_t>(self_.size), self_.host);
  std::vector<std::string> devices;
  for (int rank = 0; rank < self_.size; ++rank)
    devices.emplace_back(slots_[rank].device, ::strnlen(slots_[rank].device, kLongestDevice));
  return genesis::who_share_a_device(devices, hosts);
}

}  // namespace genesis
