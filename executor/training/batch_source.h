// A source of training batches, and the share of one rank. It is a pure function of the position, so a run that is resumed sees the same
// batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "executor/inputs.h"
#include "schema/ranks/mesh.h"

namespace genesis {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Returns batch number `position`, counted from the start of training across epochs. Called from a background thread.
  virtual NamedTensors batch(int64_t position) = 0;
  virtual int64_t items_per_batch() const = 0;  // samples or tokens, for the displayed speed
  // Returns the number of batches in one pass over the data; 0: the source is endless. An evaluation takes them all.
  virtual int64_t batches_per_epoch() const { return 0; }
};

// Prepares batches ahead of their use in a background thread. next() throws the errors of the source.
class Prefetcher {
 public:
  Prefetcher(BatchSource& source, int64_t first_position,
             int depth = 2);  // number of batches prepared ahead, at least 1
  ~Prefetcher();
  NamedTensors next();
  // Returns what next() would return if it is ready; next() still returns it afterwards.
  std::optional<NamedTensors> peek() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Gives each rank of a mesh its shard of every batch: equal, contiguous shards of the first dimension, in the order of the mesh
// axis "data". So the order of samples does not depend on the number of ranks, and a run resumed with another number of ranks
// continues with the next sample. Returns a source of this rank's shards, or `source` itself if the mesh has one rank along "data".
// Every rank gets the scalars of a batch. A batch that cannot be divided evenly is an Error that suggests sizes.
std::unique_ptr<BatchSource> share_of(std::unique_ptr<BatchSource> source, const Mesh& mesh, int64_t rank);

}  // namespace genesis
