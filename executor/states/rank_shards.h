// Cuts the values that this rank holds from the whole values of a state, and gets whole values from all ranks. It works on
// tensors and addresses that it is given: it knows neither who owns them nor how their values are encoded.
#pragma once

#include <memory>
#include <string>

#include "backends/collectives.h"
#include "executor/runtime/device.h"
#include "schema/graph/state_storage.h"

namespace genesis {

// Returns the values of the shard among all values; nothing if `all` is empty. Shares memory with `all` if the shard is one run.
Tensor cut(const Shard& shard, const Tensor& all);

// Returns the whole tensor of `type` from the values of all ranks, which follow one another in the order of the axis.
Tensor joined(const Shard& shard, const TensorType& type, const Tensor& of_ranks);

// The exchanges that bring shards together. All ranks of the shard's axis make the same calls.
class RankShards {
 public:
  // `collectives` may be null: then every call below but failure() throws Error.
  RankShards(Device& device, std::shared_ptr<Collectives> collectives)
      : device_(device), collectives_(std::move(collectives)) {}

  // Returns why the ranks can no longer exchange data; empty: they can. Any thread may call it.
  std::string failure() const { return collectives_ ? collectives_->failure() : ""; }
  // Throws Error that says `doing` if the ranks can no longer exchange data: what the calls below returned is not valid then.
  void check(const std::string& doing) const;

  // Gathers `count` elements at `own` from each rank, in the order of the axis. `state` names the state in an Error.
  DeviceMemory gathered(const Shard& shard, const std::byte* own, int64_t count, DType dtype,
                        const std::string& state) const;
  // Returns true on the rank that owns all values. `shard` must have an owner.
  bool is_owner(const Shard& shard, const std::string& state) const;
  // Copies `count` elements at `values` from the owner to all ranks.
  void send_from_owner(const Shard& shard, std::byte* values, int64_t count, DType dtype,
                       const std::string& state) const;

 private:
  RankGroup& group(const Shard& shard, const std::string& state) const;

  Device& device_;
  const std::shared_ptr<Collectives> collectives_;
};

}  // namespace genesis
