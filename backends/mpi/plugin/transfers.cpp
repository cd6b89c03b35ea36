#include "backends/mpi/plugin/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace genesis::mpi {
namespace {

constexpr int64_t kLongestMessage = 1 << 30;  // bytes; MPI counts in int
// Seconds in which the last messages of a rank that leaves must arrive; it has sent everything before it announces that it
// leaves.
constexpr double kLastArrivals = 2;

}  // namespace

// Tracks how long wait() has waited, and chooses the pause: none at first, later the core is left to others.
struct Transfers::Waiting {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  int rounds = 0;
  double left_at = 0;     // seconds; when a rank that is waited for was seen to have left
  bool has_said = false;  // a message about waiting has been printed

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void pause() {
    if (++rounds < 100) return;
    if (rounds < 2000)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
};

Transfers::~Transfers() {
  if (requests_.empty()) return;
  cancel_receives();
  world_.give_up([this] {
    int done = 0;
    return MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE) ==
               MPI_SUCCESS &&
           done;
  });
}

// Cancels the receives for which nothing has arrived yet: MPI could still write to their memory. MPI cannot cancel a send.
void Transfers::cancel_receives() {
  for (size_t i = 0; i < requests_.size(); ++i)
    if (is_receive_[i] && requests_[i] != MPI_REQUEST_NULL)
      world_.call([&] { return MPI_Cancel(&requests_[i]); });
}

void Transfers::post(int peer, bool is_receive, int64_t bytes, auto&& start) {
  for (int64_t done = 0; done < bytes; done += kLongestMessage) {
    if ((was_cut_ |= world_.has_failed())) return;
    MPI_Request request = MPI_REQUEST_NULL;
    const int length = static_cast<int>(std::min(bytes - done, kLongestMessage));
    if ((was_cut_ |= !world_.call([&] { return start(done, length, &request); }))) return;
    requests_.push_back(request);
    peers_.push_back(peer);
    is_receive_.push_back(is_receive);
  }
}

void Transfers::send(const std::byte* from, int64_t bytes, int to) {
  post(to, false, bytes, [&](int64_t at, int length, MPI_Request* request) {
    return MPI_Isend(from + at, length, MPI_BYTE, to, tag_, world_.data(), request);
  });
}

void Transfers::receive(std::byte* to, int64_t bytes, int from) {
  post(from, true, bytes, [&](int64_t at, int length, MPI_Request* request) {
    return MPI_Irecv(to + at, length, MPI_BYTE, from, tag_, world_.data(), request);
  });
}

bool Transfers::wait(const std::string& what) {
  bool done = false;  // stays valid if a failure is reported after everything arrived
  for (Waiting waiting; !world_.has_failed() && test(&done) && !done;)
    if (!poll(waiting, what)) break;
  if (was_cut_ || (world_.has_failed() && !done && !(test(&done) && done)))
    return false;
  requests_.clear();
  peers_.clear();
  is_receive_.clear();
  return true;
}

bool Transfers::test(bool* done) {
  int flag = 0;
  const bool is_well = world_.call([&] {
    return MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE);
  });
  *done = flag != 0;
  return is_well;
}

bool Transfers::poll(Waiting& waiting, const std::string& what) {
  constexpr int kListenEvery = 64;
  waiting.pause();
  if (waiting.rounds % kListenEvery != 0) return true;
  world_.listen();
  if (world_.has_failed()) return false;
  const double seconds = waiting.seconds();
  if (seconds > world_.limits().call) fail_for(what, fmt::format("waited for {} s", world_.limits().call));
  const std::vector<int> peers = unfinished_peers();
  if (seconds > world_.limits().patience && !std::exchange(waiting.has_said, true)) say_waiting(what, peers);
  const bool has_left =
      std::any_of(peers.begin(), peers.end(), [&](int peer) { return world_.has_left(peer); });
  if (!has_left) waiting.left_at = seconds;
  if (seconds - waiting.left_at > kLastArrivals) fail_for(what, "waits for ranks of which one has ended");
  return !world_.has_failed();
}

std::vector<int> Transfers::unfinished_peers() {
  std::vector<int> peers;
  for (size_t i = 0; i < requests_.size(); ++i) {
    int done = 0;
    world_.call([&] { return MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE); });
    if (!done && std::find(peers.begin(), peers.end(), peers_[i]) == peers.end()) peers.push_back(peers_[i]);
  }
  return peers;
}

std::string Transfers::names_of(const std::vector<int>& peers) const {
  std::string names;
  for (const int peer : peers)
    names +=
        (names.empty() ? "" : ", ") + world_.name(peer) + (world_.has_left(peer) ? ", which has ended" : "");
  return names;
}

// Prints a message if this is the first of the ranks that have come.
void Transfers::say_waiting(const std::string& what, const std::vector<int>& missing) {
  for (const int peer : peers_)
    if (peer < world_.rank() && std::ranges::find(missing, peer) == missing.end()) return;
  fmt::print(stderr,
             "genesis: {} still waits for {} in {}, for {:.0f} s now; the run ends after {:.0f} s "
             "(GENESIS_COLLECTIVE_TIMEOUT)\n",
             world_.name(world_.rank()), names_of(missing), what, world_.limits().patience,
             world_.limits().call);
}

void Transfers::fail_for(const std::string& what, const std::string& how) {
  world_.fail(fmt::format("{} {} in {}: no answer from {}", world_.name(world_.rank()), how, what,
                          names_of(unfinished_peers())));
}

}  // namespace genesis::mpi
