// Where training batches come from. A source is a pure function of its position, so a run that stops and
// resumes sees the very same batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "executor/inputs.h"

namespace genesis {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Batch number `position`, counted from the start of training across epochs. Called from a background
  // thread.
  virtual NamedTensors batch(int64_t position) = 0;
  virtual int64_t items_per_batch() const = 0;  // samples or tokens, for the speed shown
  // How many batches go once through the data; 0: the source has no end. An evaluation takes them all.
  virtual int64_t batches_per_epoch() const { return 0; }
};

// Prepares batches ahead of their use in a thread of its own. Errors of the source are thrown by next().
class Prefetcher {
 public:
  Prefetcher(BatchSource& source, int64_t first_position,
             int depth = 2);  // depth: batches prepared ahead, >= 1
  ~Prefetcher();
  NamedTensors next();
  // What next() would give, if it is there already; next() still gives it.
  std::optional<NamedTensors> peek() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis
