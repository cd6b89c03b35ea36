#include "executor/training/batch_source.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "schema/core/parallel.h"

#include "passes/distribution/rank_sizes.h"
#include "schema/core/error.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis {

class Prefetcher::Impl {
 public:
  Impl(BatchSource& source, int64_t first_position, int depth)
      : source_(source),
        position_(first_position),
        depth_(static_cast<size_t>(depth)),
        thread_(start_thread([this] { produce(); })) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  NamedTensors next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    NamedTensors batch = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  std::optional<NamedTensors> peek() {
    const std::lock_guard lock(mutex_);
    return ready_.empty() ? std::nullopt : std::optional(ready_.front());
  }

 private:
  void produce() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || ready_.size() < depth_; });
        if (stopping_) return;
      }
      if (!produce_one()) return;
    }
  }

  bool produce_one() {
    NamedTensors batch;
    std::exception_ptr failure;
    try {
      batch = source_.batch(position_++);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (failure)
      failure_ = failure;
    else
      ready_.push_back(std::move(batch));
    changed_.notify_all();
    return !failure;
  }

  BatchSource& source_;
  int64_t position_;
  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<NamedTensors> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;  // last, since it uses the other members
};

Prefetcher::Prefetcher(BatchSource& source, int64_t first_position, int depth) {
  if (depth < 1) fail("a prefetcher of depth {} prepares nothing: give at least 1", depth);
  impl_ = std::make_unique<Impl>(source, first_position, depth);
}
Prefetcher::~Prefetcher() = default;
NamedTensors Prefetcher::next() { return impl_->next(); }
std::optional<NamedTensors> Prefetcher::peek() const { return impl_->peek(); }

namespace {

class RankShare final : public BatchSource {
 public:
  RankShare(std::unique_ptr<BatchSource> source, int64_t shard, int64_t shards)
      : source_(std::move(source)), shard_(shard), shards_(shards) {}

  NamedTensors batch(int64_t position) override {
    NamedTensors mine;
    for (const auto& [name, whole] : source_->batch(position)) mine.emplace(name, share(name, whole));
    return mine;
  }
  int64_t items_per_batch() const override { return source_->items_per_batch(); }  // counts all ranks
  int64_t batches_per_epoch() const override { return source_->batches_per_epoch(); }

 private:
  Tensor share(const std::string& name, const Tensor& whole) const {
    TensorType type = whole.type();
    if (type.shape.rank() == 0) return whole;
    const int64_t rows = type.shape[0].value();
    if (rows % shards_ != 0)
      fail("a batch of {} samples ('{}') cannot be shared by {} ranks along 'data': take a batch of {}", rows,
           name, shards_, passes::sizes_near(rows, shards_));
    type.shape[0] = Dim(rows / shards_);
    const auto owner = std::make_shared<Tensor>(whole);
    return Tensor(type, owner, whole.data() + shard_ * type.bytes());
  }

  const std::unique_ptr<BatchSource> source_;
  const int64_t shard_, shards_;
};

}  // namespace

std::unique_ptr<BatchSource> share_of(std::unique_ptr<BatchSource> source, const Mesh& mesh, int64_t rank) {
  const int64_t shards = mesh.size(kDataAxis);
  if (shards == 1) return source;
  return std::make_unique<RankShare>(std::move(source), mesh.place(rank, kDataAxis), shards);
}

}  // namespace genesis
