#include "executor/states/rank_shards.h"

#include <vector>

#include "schema/core/error.h"

namespace genesis {

Tensor cut(const Shard& shard, const Tensor& all) {
  if (all.empty_handle()) return {};
  const size_t value_bytes = size_of(all.type().dtype);
  const TensorType type{all.type().dtype, shard.shape.rank() > 0 ? shard.shape : Shape{shard.numel()}};
  if (shard.runs == 1)
    return Tensor(type, std::make_shared<Tensor>(all),
                  all.data() + static_cast<size_t>(shard.first) * value_bytes);
  std::byte* to;
  Tensor kept = Tensor::uninitialized(type, &to);
  shard.take(all.data(), all.type().numel(), value_bytes, to);
  return kept;
}

Tensor joined(const Shard& shard, const TensorType& type, const Tensor& of_ranks) {
  if (shard.runs == 1) return of_ranks;
  const auto whole = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(of_ranks.bytes()));
  shard.join(of_ranks.data(), type.numel(), size_of(type.dtype), whole->data());
  return Tensor(type, whole, whole->data());
}

void RankShards::check(const std::string& doing) const {
  if (const std::string why = failure(); !why.empty()) fail("while {}: {}", doing, why);
}

RankGroup& RankShards::group(const Shard& shard, const std::string& state) const {
  if (RankGroup* ranks = collectives_ ? collectives_->group(shard.axis) : nullptr) return *ranks;
  fail(
      "every rank along '{1}' keeps a shard of state '{0}', and this session cannot exchange data with them: "
      "give SessionOptions::collectives",
      state, shard.axis);
}

DeviceMemory RankShards::gathered(const Shard& shard, const std::byte* own, int64_t count, DType dtype,
                                  const std::string& state) const {
  RankGroup& ranks = group(shard, state);
  DeviceMemory whole = device_.allocate(count * ranks.size() * static_cast<int64_t>(size_of(dtype)));
  const Exchange exchange{own, whole.get(), count, dtype};
  device_.enter([&] { ranks.all_gather({&exchange, 1}, device_.stream()); });
  return whole;
}

bool RankShards::is_owner(const Shard& shard, const std::string& state) const {
  return group(shard, state).rank() == static_cast<int>(*shard.owner);
}

void RankShards::send_from_owner(const Shard& shard, std::byte* values, int64_t count, DType dtype,
                                 const std::string& state) const {
  RankGroup& ranks = group(shard, state);
  const Exchange exchange{values, values, count, dtype};
  device_.enter([&] { ranks.broadcast({&exchange, 1}, static_cast<int>(*shard.owner), device_.stream()); });
}

}  // namespace genesis
