// A source of training batches. It is a pure function of the position, so a run that is resumed sees the same batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "executor/inputs.h"

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

}  // namespace genesis
