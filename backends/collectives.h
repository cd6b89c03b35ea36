// How ranks exchange data: what the kernels of collective ops call, whatever carries it (MPI between CPUs, NCCL between
// GPUs). All ranks of a group make the same calls in the same order with the same counts and dtypes; only then does a
// call come back. Sums add the ranks in one order, so all ranks get the same bits, in every run. A NaN of one rank makes
// sums and means NaN on all of them; NCCL's max and min may pass over it, those of CPUs do not.
// Only floats have a mean, bools have max and min alone, and i16 between GPUs is moved but not reduced.
//
// A call cannot throw, since kernels cannot: the first that fails (a rank that died, a time limit that passed) leaves
// its text in Collectives::failure(), and from then on every call returns at once and leaves its results unwritten. A
// runner asks for the failure after each run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/core/dtype.h"
#include "schema/ranks/rank_reduction.h"

namespace genesis {

// One tensor of an exchange. `count` is in elements: of the whole for all_reduce and broadcast, of one rank's part for
// all_gather (`to` holds size() parts), reduce_scatter (`from` holds size() parts) and all_to_all (both do).
struct Exchange {
  const void* from = nullptr;
  // May be `from`, but for all_to_all; for all_gather `from` may be this rank's part of it.
  void* to = nullptr;
  int64_t count = 0;  // 0 is allowed: nothing is exchanged
  DType dtype = DType::f32;

  int64_t bytes() const { return count * static_cast<int64_t>(size_of(dtype)); }  // of `count` elements
};

// What other kernels do while an exchange runs: nothing, as they wait for it; what memory bounds, which leaves the processor
// room; or what needs all of the processor.
enum class WorkBeside : char { kNone, kMemoryBound, kComputeBound };

// A call to come, with its tensors.
struct PlannedExchange {
  std::vector<Exchange> tensors;
  WorkBeside beside = WorkBeside::kNone;
};

// The ranks along one axis of the mesh, this one among them. `stream`: a CUDA stream, in whose order a GPU's exchange is
// done, capturable into a CUDA graph; null on a CPU, where a call is done when it returns.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  virtual int rank() const = 0;  // on this axis, from 0
  virtual int size() const = 0;

  // Says what the next calls exchange, in their order, so that ranks of one host can tell each other where it lies; those
  // calls must follow, with these tensors. All ranks of the group call it at the same place of their runs, or none does:
  // it makes exchanges faster and nothing else. Throws Error.
  virtual void plan_exchanges(std::span<const PlannedExchange>) {}

  // Several tensors at once go together, as NCCL groups them: one start for all.
  virtual void all_reduce(std::span<const Exchange> tensors, RankReduction reduction, void* stream) = 0;
  // As all_reduce of a sum, plus `addend`, which is the same on all ranks, of the same dtype and count, and not `to`. False
  // where nothing was done, on all ranks: then all_reduce and an addition do. `early`: it may start before the kernel ahead of
  // it in the stream has ended, which is all that it then waits for (PDL).
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
  // Null where the mesh has no such axis.
  virtual RankGroup* group(std::string_view axis) = 0;
  // Empty as long as all goes well; else what went wrong, naming rank and host.
  virtual std::string failure() const = 0;
  // Makes calls that wait return, here and on the other ranks, with this as the failure. May be called by any thread.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace genesis
