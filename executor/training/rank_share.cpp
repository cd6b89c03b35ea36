#include "executor/training/rank_share.h"

#include "passes/distribution/rank_sizes.h"
#include "schema/core/error.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis {
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
