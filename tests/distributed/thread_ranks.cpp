#include "tests/distributed/thread_ranks.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "schema/core/error.h"
#include "schema/core/float16.h"
#include "schema/core/tensor.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::testing {
namespace {

// The point where the ranks of a group meet: each offers its tensors, all read what they need, and all leave.
class Meeting {
 public:
  explicit Meeting(size_t ranks) : tensors_(ranks) {}

  template <class Read>
  void meet(size_t rank, std::span<const Exchange> mine, const std::function<std::string()>& failure,
            const Read& read) {
    tensors_[rank] = mine;
    wait(failure);
    if (failure().empty()) read(tensors_);
    wait(failure);
  }

 private:
  void wait(const std::function<std::string()>& failure) {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ == tensors_.size()) {
      arrived_ = 0;
      ++round_;
      return all_here_.notify_all();
    }
    while (round_ == round && failure().empty()) all_here_.wait_for(lock, std::chrono::milliseconds(20));
  }

  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<std::span<const Exchange>> tensors_;
  size_t arrived_ = 0;
  int64_t round_ = 0;
};

// Sends from one rank of a group to another. Both wait until the tensors have been received, as with messages too
// large to be buffered, so a circular order of exchanges fails here too.
class Channel {
 public:
  using Failure = std::function<std::string()>;

  void send(std::span<const Exchange> tensors, const Failure& failure) {
    std::unique_lock lock(mutex_);
    offered_ = &tensors;
    moved_.notify_all();
    wait(lock, failure, [&] { return offered_ == nullptr; });
    offered_ = nullptr;
  }
  void receive(std::span<const Exchange> tensors, const Failure& failure) {
    std::unique_lock lock(mutex_);
    if (!wait(lock, failure, [&] { return offered_ != nullptr; })) return;
    GENESIS_ASSERT(offered_->size() == tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Exchange &from = (*offered_)[i], &to = tensors[i];
      GENESIS_ASSERT(from.count == to.count && from.dtype == to.dtype);
      if (to.count > 0) std::memcpy(to.to, from.from, static_cast<size_t>(to.count) * size_of(to.dtype));
    }
    offered_ = nullptr;
    moved_.notify_all();
  }

 private:
  template <class Done>
  bool wait(std::unique_lock<std::mutex>& lock, const Failure& failure, const Done& done) {
    while (!done()) {
      if (!failure().empty()) return false;
      moved_.wait_for(lock, std::chrono::milliseconds(20));
    }
    return true;
  }

  std::mutex mutex_;
  std::condition_variable moved_;
  const std::span<const Exchange>* offered_ = nullptr;
};

// All groups of all ranks, and the first failure.
struct Hall {
  std::mutex mutex;
  std::map<std::string, Channel> channels;                   // by group, sender and receiver
  std::map<std::string, std::unique_ptr<Meeting>> meetings;  // by axis and members
  std::string failure;

  Meeting& meeting(const std::string& key, size_t ranks) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<Meeting>& found = meetings[key];
    if (!found) found = std::make_unique<Meeting>(ranks);
    return *found;
  }
  Channel& channel(const std::string& group, int from, int to) {
    const std::lock_guard lock(mutex);
    return channels[group + " " + std::to_string(from) + ">" + std::to_string(to)];
  }
};

template <class T>
void reduce(const std::vector<const T*>& from, int64_t count, RankReduction reduction, T* to) {
  for (int64_t i = 0; i < count; ++i) {
    double sum = static_cast<double>(from[0][i]);
    float narrow = static_cast<float>(from[0][i]);
    for (size_t r = 1; r < from.size(); ++r) {
      const double value = static_cast<double>(from[r][i]);
      narrow += static_cast<float>(value);
      if (reduction == RankReduction::kMax)
        sum = std::max(sum, value);
      else if (reduction == RankReduction::kMin)
        sum = std::min(sum, value);
      else
        sum += value;
    }
    const bool adds = reduction == RankReduction::kSum || reduction == RankReduction::kMean;
    if (adds && !std::is_same_v<T, double> && !std::is_integral_v<T>) sum = narrow;
    if (reduction == RankReduction::kMean) sum /= static_cast<double>(from.size());
    to[i] = static_cast<T>(sum);
  }
}

class ThreadGroup final : public RankGroup {
 public:
  ThreadGroup(Hall& hall, std::string key, int rank, int size)
      : hall_(hall),
        key_(std::move(key)),
        meeting_(hall.meeting(key_, static_cast<size_t>(size))),
        rank_(rank),
        size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void*) override {
    exchange(
        tensors,
        [&](const Exchange& e, const std::vector<const std::byte*>& from, std::byte* to) {
          reduce_bytes(e, from, 0, reduction, to);
        },
        [](const Exchange& e) { return bytes(e); });
  }
  void reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void*) override {
    exchange(
        tensors,
        [&](const Exchange& e, const std::vector<const std::byte*>& from, std::byte* to) {
          reduce_bytes(e, from, bytes(e) * static_cast<size_t>(rank_), reduction, to);
        },
        [](const Exchange& e) { return bytes(e); });
  }
  void all_gather(std::span<const Exchange> tensors, void*) override {
    exchange(
        tensors,
        [&](const Exchange& e, const std::vector<const std::byte*>& from, std::byte* to) {
          for (size_t r = 0; r < from.size(); ++r) std::memcpy(to + r * bytes(e), from[r], bytes(e));
        },
        [&](const Exchange& e) { return bytes(e) * static_cast<size_t>(size_); });
  }
  void all_to_all(std::span<const Exchange> tensors, void*) override {
    exchange(
        tensors,
        [&](const Exchange& e, const std::vector<const std::byte*>& from, std::byte* to) {
          for (size_t r = 0; r < from.size(); ++r)
            std::memcpy(to + r * bytes(e), from[r] + bytes(e) * static_cast<size_t>(rank_), bytes(e));
        },
        [&](const Exchange& e) { return bytes(e) * static_cast<size_t>(size_); });
  }
  void broadcast(std::span<const Exchange> tensors, int root, void*) override {
    exchange(
        tensors,
        [&](const Exchange& e, const std::vector<const std::byte*>& from, std::byte* to) {
          std::memcpy(to, from[static_cast<size_t>(root)], bytes(e));
        },
        [](const Exchange& e) { return bytes(e); });
  }
  void send(std::span<const Exchange> tensors, int to, void*) override {
    hall_.channel(key_, rank_, to).send(tensors, [&] { return failure(); });
  }
  void receive(std::span<const Exchange> tensors, int from, void*) override {
    hall_.channel(key_, from, rank_).receive(tensors, [&] { return failure(); });
  }

 private:
  std::string failure() const {
    const std::lock_guard lock(hall_.mutex);
    return hall_.failure;
  }
  static size_t bytes(const Exchange& e) { return static_cast<size_t>(e.count) * size_of(e.dtype); }

  // Results are written to separate memory first, since other ranks may still read memory that overlaps `to`.
  template <class Make, class Size>
  void exchange(std::span<const Exchange> tensors, const Make& make, const Size& size) {
    std::vector<std::vector<std::byte>> results(tensors.size());
    meeting_.meet(
        static_cast<size_t>(rank_), tensors, [&] { return failure(); },
        [&](const auto& all) {
          for (size_t i = 0; i < tensors.size(); ++i) {
            std::vector<const std::byte*> from;
            for (const auto& of_rank : all) from.push_back(static_cast<const std::byte*>(of_rank[i].from));
            results[i].resize(size(tensors[i]));
            make(tensors[i], from, results[i].data());
          }
        });
    if (!failure().empty()) return;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!results[i].empty()) std::memcpy(tensors[i].to, results[i].data(), results[i].size());
  }

  static void reduce_bytes(const Exchange& e, const std::vector<const std::byte*>& from, size_t offset,
                           RankReduction reduction, std::byte* to) {
    dispatch(e.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::vector<const T*> values;
      for (const std::byte* at : from) values.push_back(reinterpret_cast<const T*>(at + offset));
      reduce(values, e.count, reduction, reinterpret_cast<T*>(to));
    });
  }

  Hall& hall_;
  const std::string key_;  // identifies the group
  Meeting& meeting_;
  const int rank_, size_;
};

class ThreadRank final : public Collectives {
 public:
  ThreadRank(std::shared_ptr<Hall> hall, const Mesh& mesh, int64_t rank) : hall_(std::move(hall)) {
    for (const std::string& name : group_names(mesh)) {
      std::string key = name;
      for (const int64_t member : mesh.group(rank, name)) key += " " + std::to_string(member);
      groups_[name] = std::make_unique<ThreadGroup>(*hall_, key, static_cast<int>(mesh.place(rank, name)),
                                                    static_cast<int>(mesh.size(name)));
    }
  }
  RankGroup* group(std::string_view axis) override {
    const auto at = groups_.find(axis);
    return at == groups_.end() ? nullptr : at->second.get();
  }
  std::string failure() const override {
    const std::lock_guard lock(hall_->mutex);
    return hall_->failure;
  }
  void abort(const std::string& why) override {
    const std::lock_guard lock(hall_->mutex);
    if (hall_->failure.empty()) hall_->failure = why;
  }

 private:
  std::shared_ptr<Hall> hall_;
  std::map<std::string, std::unique_ptr<ThreadGroup>, std::less<>> groups_;
};

}  // namespace

void run_ranks(const Mesh& mesh, const std::function<void(int64_t, std::shared_ptr<Collectives>)>& body) {
  const auto hall = std::make_shared<Hall>();
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    threads.emplace_back([&, rank] {
      const auto ranks = std::make_shared<ThreadRank>(hall, mesh, rank);
      try {
        body(rank, ranks);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        ranks->abort("rank " + std::to_string(rank) + " failed");
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace genesis::testing
