// The interface by which kernels of collective ops exchange data between ranks, over MPI between CPUs and NCCL between GPUs. All
// ranks of a group must make the same calls in the same order with the same counts and dtypes; a call returns only then. Sums add
// the ranks in a fixed order, so all ranks get the same bits, in every run. A NaN on one rank makes sums and means NaN on all
// ranks. Max and min keep a NaN on CPUs; NCCL's may drop it. A mean exists only for floats; bools have only max and min; i16 is
// moved but not reduced between GPUs.
//
// A call cannot throw, since kernels cannot. The first call that fails (a rank died, a time limit passed) stores its message in
// Collectives::failure(); from then on every call returns at once without writing its results. A runner checks for a failure
// after each run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/core/dtype.h"
#include "schema/ranks/rank_reduction.h"

namespace genesis {

// One tensor of an exchange. `count` is the number of elements of the whole tensor in all_reduce and broadcast, and of one rank's
// shard in all_gather (`to` holds size() shards), reduce_scatter (`from` holds size() shards) and all_to_all (both do).
struct Exchange {
  const void* from = nullptr;
  // May equal `from`, except in all_to_all; in all_gather `from` may be this rank's shard within `to`.
  void* to = nullptr;
  int64_t count = 0;  // 0 is allowed: nothing is exchanged
  DType dtype = DType::f32;

  int64_t bytes() const { return count * static_cast<int64_t>(size_of(dtype)); }  // bytes of `count` elements
};

// The work of other kernels during an exchange: none, since they wait for it; memory-bound work, which leaves multiprocessors
// free; or compute-bound work, which needs all of them.
enum class WorkBeside : char { kNone, kMemoryBound, kComputeBound };

// An exchange that a run will make, with its tensors.
struct PlannedExchange {
  std::vector<Exchange> tensors;
  WorkBeside beside = WorkBeside::kNone;
};

// The ranks along one axis of the mesh, including this one. `stream`: on a GPU, a CUDA stream in whose order the exchange runs,
// also during a graph capture; null on a CPU, where an exchange is complete when the call returns.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;  // on this axis, from 0
  virtual int size() const = 0;

  // Announces the exchanges of the next calls, in order, so that ranks of one host can tell each other the addresses. Exactly
  // these calls must follow, with these tensors. Either all ranks of the group announce at the same point of their runs, or none
  // does. This only makes exchanges faster. Throws Error.
  virtual void plan_exchanges(std::span<const PlannedExchange>) {}

  // These calls exchange several tensors as one group, as in NCCL: one launch for all.
  virtual void all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void* stream) = 0;
  // all_reduce of a sum plus `addend`, which is the same on all ranks, has the same dtype and count, and is not `to`. Returns
  // false on all ranks if nothing was done; the caller then uses all_reduce and an addition. `early`: the exchange may start
  // before the previous kernel in the stream has ended, and waits for that kernel only (PDL).
  virtual bool all_reduce_adding(const Exchange&, const void* /*addend*/, void* /*stream*/, bool /*early*/) {
    return false;
  }
  virtual void reduce_scatter(std::span<const Exchange> tensors, RankReduction reduction, void* stream) = 0;
  virtual void all_gather(std::span<const Exchange> tensors, void* stream) = 0;
  virtual void all_to_all(std::span<const Exchange> tensors, void* stream) = 0;
  virtual void broadcast(std::span<const Exchange> tensors, int root, void* stream) = 0;
  virtual void send(std::span<const Exchange> tensors, int to, void* stream) = 0;
  virtual void receive(std::span<const Exchange> tensors, int from, void* stream) = 0;
};

// All groups of this rank.
class Collectives {
 public:
  virtual ~Collectives() = default;
  // Returns null if the mesh has no such axis.
  virtual RankGroup* group(std::string_view axis) = 0;
  // Returns an empty text while all is well, else the failure, which names rank and host.
  virtual std::string failure() const = 0;
  // Makes waiting calls return, here and on the other ranks, with `why` as the failure. Any thread may call it.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace genesis
