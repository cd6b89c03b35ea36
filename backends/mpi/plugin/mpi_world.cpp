#include "backends/mpi/plugin/mpi_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "backends/joining_ranks.h"
#include "backends/process_limit.h"
#include "schema/core/error.h"
#include "schema/core/host_name.h"
#include "schema/core/parallel.h"

namespace genesis::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFailed = 1, kLeaves = 2, kAlive = 3, kLost = 4;  // tags of notices
constexpr std::chrono::seconds kBeat{1};
constexpr std::chrono::milliseconds kLook{200};
constexpr size_t kMaxNotice = 4000;  // bytes; short messages arrive without the help of the receiver

std::string error_text(int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return text;
}

void check(int error, const char* what) {
  if (error != MPI_SUCCESS) genesis::fail("{}: {}", what, error_text(error));
}

// If a rank is stopped before MPI knows it, the others wait inside MPI.
std::string why_not_joined(double seconds) {
  return fmt::format(
      "this rank has waited for {:.0f} s for the others to start: one of them was stopped, or its host is "
      "not "
      "reached",
      seconds);
}

std::string processor_name() {
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
  return name;
}

// If all ranks are on one host, makes them meet in shared memory and listen on no network interface. A variable that the user has
// set stays.
void listen_nowhere_on_one_host() {
  const char *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *all = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (here && all && std::string_view(here) == all) ::setenv("OMPI_MCA_btl", "self,vader", 0);
}

}  // namespace

MpiWorld::MpiWorld(const RankLimits& limits) : limits_(limits) {
  const double longest = std::min(limits.start, limits.call);
  JoiningRanks others(host_name(), limits.silence);
  const ProcessLimit limit(longest, why_not_joined(longest), [&] { return others.who_is_stopped(); });
  int has_started = 0, threads = 0;
  listen_nowhere_on_one_host();
  MPI_Initialized(&has_started);
  if (has_started) genesis::fail("MPI was started in this process before: a process joins its run once");
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads), "MPI_Init_thread");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // inherited by its duplicates
  if (threads < MPI_THREAD_SERIALIZED)
    genesis::fail("this MPI library knows no threads: Genesis needs MPI_THREAD_SERIALIZED");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &data_), "MPI_Comm_dup");
  check(MPI_Comm_dup(MPI_COMM_WORLD, &notices_), "MPI_Comm_dup");
  hosts_ = texts_of_all(processor_name());
  if (size_ > 1) meet_neighbors();
  if (size_ > 1)
    with_context([&] { heart_ = start_thread([this] { beat(); }); }, [&] { return name(rank_); });
}

MpiWorld::~MpiWorld() {
  {
    const std::lock_guard lock(ending_mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (heart_.joinable()) heart_.join();
  say_leaving();
  if (wait_for_leaving() && !has_failed_) MPI_Finalize();
}

// Gathers short texts; longer ones are truncated.
std::vector<std::string> MpiWorld::texts_of_all(const std::string& mine) {
  using Text = std::array<char, MPI_MAX_PROCESSOR_NAME>;
  Text text{};
  mine.copy(text.data(), text.size() - 1);
  std::vector<Text> all(static_cast<size_t>(size_));
  check(MPI_Allgather(text.data(), text.size(), MPI_CHAR, all.data(), text.size(), MPI_CHAR, data_),
        "MPI_Allgather");
  std::vector<std::string> texts;
  for (const Text& one : all) texts.emplace_back(one.data());
  return texts;
}

// The memory's name contains rank 0's process and time, so no other run has it. Containers with different host names may share
// the memory; they are not watched.
void MpiWorld::meet_neighbors() {
  const std::string run =
      texts_of_all(fmt::format("mpi-{}-{}", ::getpid(), Clock::now().time_since_epoch().count()))[0];
  neighbors_ = HostRanks::open({rank_, size_, hosts_[static_cast<size_t>(rank_)], run}, limits_.silence);
  std::vector<std::string> places = texts_of_all(neighbors_ ? neighbors_->place() : "");
  for (size_t other = 0; other < places.size(); ++other)
    if (hosts_[other] != hosts_[static_cast<size_t>(rank_)]) places[other].clear();
  if (neighbors_) neighbors_->watch(places);
}

void MpiWorld::look_at_neighbors() {
  if (!neighbors_) return;
  const std::string why = neighbors_->failure();
  if (!why.empty() && !has_left(neighbors_->failed_rank())) lose(neighbors_->failed_rank(), why);
}

std::string MpiWorld::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

bool MpiWorld::keep_failure(const std::string& why) {
  const std::lock_guard lock(failure_mutex_);
  if (has_failed_) return false;
  failure_ = why;
  has_failed_ = true;
  return true;
}

// Holds the lock, so that no thread that sees the failure gives up MPI before the others have been told.
void MpiWorld::fail(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (keep_failure(why)) say(kFailed, why.substr(0, kMaxNotice));
}

std::string MpiWorld::error_of(int rank, const std::string& why) const {
  return (name(rank) + " failed: " + why).substr(0, kMaxNotice);
}

void MpiWorld::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  const std::string text = error_of(rank_, why);
  if (keep_failure(text) || rank_ == 0) say(kFailed, text);
}

// Rank 0 reports its failure before it announces that it leaves, and its process ends only when the others have left too.
bool MpiWorld::first_says(const std::string& why) {
  const std::string same = error_of(0, why);
  const auto is_said = [&] {
    const std::lock_guard lock(failure_mutex_);
    return said_by_first_ == same;
  };
  const auto may_come = [&] {
    const std::lock_guard lock(mutex_);
    return !is_over_ && !left_.contains(0);
  };
  const std::chrono::duration<double> limit(limits_.end);
  for (const auto start = Clock::now(); !is_said();
       std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    if (!may_come() || Clock::now() - start > limit) return false;
    listen();
  }
  say_leaving();
  std::this_thread::sleep_for(limit);
  return true;
}

void MpiWorld::fail_in_mpi(int error) { fail(name(rank_) + ": MPI: " + error_text(error)); }

// Notices that do not arrive are ignored: their receiver is gone.
void MpiWorld::say(int tag, const std::string& text) {
  for (int to = 0; to < size_ && !is_over_; ++to) {
    if (to == rank_) continue;
    Notice& notice = notices_sent_.emplace_back(Notice{text, MPI_REQUEST_NULL});
    MPI_Isend(notice.text.data(), static_cast<int>(notice.text.size()), MPI_CHAR, to, tag, notices_,
              &notice.request);
  }
}

bool MpiWorld::has_left(int rank) const {
  const std::lock_guard lock(mutex_);
  return left_.contains(rank);
}

void MpiWorld::listen() {
  for (int is_there = 1; is_there && size_ > 1;) {
    MPI_Status status;
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, notices_, &is_there, &status) != MPI_SUCCESS) return;
    if (is_there) hear(status);
  }
}

void MpiWorld::hear(const MPI_Status& status) {
  int length = 0;
  MPI_Get_count(&status, MPI_CHAR, &length);
  std::string text(static_cast<size_t>(std::max(length, 0)), ' ');
  MPI_Recv(text.data(), length, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, notices_, MPI_STATUS_IGNORE);
  if (status.MPI_SOURCE == (rank_ + size_ - 1) % size_) was_heard_ = true;
  if (status.MPI_TAG == kLeaves)
    left_.insert(status.MPI_SOURCE);
  else if (status.MPI_TAG == kLost)
    left_.insert(std::atoi(text.c_str()));
  if (status.MPI_TAG != kFailed) return;
  keep_failure(text);
  const std::lock_guard lock(failure_mutex_);
  if (status.MPI_SOURCE == 0) said_by_first_ = text;
}

// If this thread has slept through several heartbeats, the process was itself stopped, perhaps with all others, or had no core.
// At most four seconds of such a pause count as silence, so a busy machine delays the detection of lost ranks but does not
// prevent it.
void MpiWorld::beat() {
  const int before = (rank_ + size_ - 1) % size_;
  constexpr double kLongest = 4;
  double silent = 0;
  auto last = Clock::now();
  for (std::unique_lock lock(ending_mutex_); !ending_ && !has_failed_;) {
    wake_.wait_for(lock, kLook);
    if (ending_) return;
    look_at_neighbors();
    const auto now = Clock::now();
    if (now - last < kBeat) continue;
    say_alive();
    listen();
    const double passed = std::chrono::duration<double>(now - std::exchange(last, now)).count();
    silent = was_heard_.exchange(false) ? 0 : silent + std::min(passed, kLongest);
    if (silent > limits_.silence && !has_left(before))
      lose(
          before,
          fmt::format("{} has said nothing for {:.0f} s: its process was stopped, or its host is not reached",
                      name(before), silent));
  }
}

void MpiWorld::lose(int rank, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    say(kLost, std::to_string(rank));
    left_.insert(rank);
  }
  fail(why);
}

// Sends no heartbeat while the last one has not arrived: its receiver does not read.
void MpiWorld::say_alive() {
  const std::lock_guard lock(mutex_);
  int has_arrived = 0;
  if (is_over_) return;
  if (MPI_Test(&alive_, &has_arrived, MPI_STATUS_IGNORE) != MPI_SUCCESS || !has_arrived) return;
  MPI_Isend(nullptr, 0, MPI_CHAR, (rank_ + 1) % size_, kAlive, notices_, &alive_);
}

bool MpiWorld::have_all_left() const {
  const std::lock_guard lock(mutex_);
  return left_.size() + 1 == static_cast<size_t>(size_);
}

void MpiWorld::say_leaving() {
  const std::lock_guard lock(mutex_);
  if (neighbors_) neighbors_->leave();
  if (leaves_at_) return;
  leaves_at_ = Clock::now();
  say(kLeaves, "");
}

// Returns true if waiting for the others to leave has become useless.
bool MpiWorld::is_late() const {
  const std::lock_guard lock(mutex_);
  const double limit = has_failed_ ? limits_.end : limits_.call;
  return is_over_ || std::chrono::duration<double>(Clock::now() - *leaves_at_).count() > limit;
}

bool MpiWorld::wait_for_leaving() {
  for (auto next_look = Clock::now();;) {
    listen();
    if (Clock::now() >= next_look) {
      look_at_neighbors();  // a killed rank does not announce that it leaves
      next_look = Clock::now() + kLook;
    }
    if (have_all_left()) return true;
    if (is_late()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void MpiWorld::give_up(const std::function<bool()>& is_done) {
  say_leaving();
  for (bool is_last = false; !is_last;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    listen();
    is_last = have_all_left() || is_late();
    const std::lock_guard lock(mutex_);
    if (is_over_ || is_done()) return;
    is_over_ = is_last;
  }
}

}  // namespace genesis::mpi
