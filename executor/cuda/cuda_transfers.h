// What crosses between host and GPU for a run: inputs on their way in, outputs on their way out. Both go
// through pinned memory, so the device copies by itself while the host and other runs go on. Used by
// cuda_runner.cpp.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "backends/cuda/runtime/runtime.h"
#include "executor/runtime/runner.h"
#include "schema/graph/plan.h"

namespace genesis {

// The inputs of a plan at fixed addresses on the device, where a captured graph reads them. Pinned memory is
// there twice: while one run's inputs are still on their way or in use, the next run's can be written.
class InputBuffers {
 public:
  InputBuffers(const Plan& plan, int device);

  std::vector<std::byte*> addresses() const;
  // Before a run, on its stream. `host`, by input, may be reused on return.
  void bring(const std::vector<std::byte*>& host, cudaStream_t stream);
  // Beside a run: into memory of its own, by a stream of its own. The next bring() of the same addresses
  // finds them there; their bytes must not have changed by then.
  void stage(const std::vector<std::byte*>& host);
  // The host has waited for all runs started so far.
  void runs_are_done();

 private:
  struct Pinned {
    std::shared_ptr<std::byte> memory;  // made when first needed, as everything that only stage() needs
    cuda::Event uploaded;
    bool busy = false;     // an upload may still be reading it
    bool awaited = false;  // by a run that was started: when that is done, so is the upload
  };

  Pinned& fill(const std::vector<std::byte*>& host);
  Pinned& free_one();
  void upload(Pinned& from, std::byte* to, cudaStream_t stream);

  const Plan& plan_;
  int device_index_;
  std::vector<int64_t> offsets_;
  int64_t bytes_ = 0;
  std::shared_ptr<std::byte> device_;
  std::array<Pinned, 2> pinned_;

  std::vector<std::byte*> staged_;  // where on the host it came from; empty: nothing is staged
  Pinned* staged_through_ = nullptr;
  std::shared_ptr<std::byte> staging_;  // on the device
  cuda::Stream side_;
  cuda::Event taken_;  // the run has copied what was staged
};

// Small outputs on the host, copied at the end of each run, so that the host waits once for a run and all it
// gives. Where a second run is started before the host has waited for the first, it has memory of its own.
class OutputBuffers {
 public:
  explicit OutputBuffers(const Plan& plan);

  void fetch(const PlanMemory& memory, cudaStream_t stream);
  // Until the first fetch that nobody has waited for is done; without one, until the stream is.
  void wait(cudaStream_t stream);
  // Whether fetches were started that nobody has waited for.
  bool are_under_way() const { return under_way_ > 0; }
  // Of the fetch waited for last. Null for an output that is fetched where it lies: it is large, or one of the
  // inputs.
  const std::byte* at(size_t output) const {
    return places_[output] < 0 ? nullptr : places_of_run_[done_].memory.get() + places_[output];
  }
  bool has_all() const;

 private:
  const Plan& plan_;
  std::vector<int64_t> places_;  // by output; -1: not here
  int64_t bytes_ = 0;            // of one run's
  struct RunPlace {
    std::shared_ptr<std::byte> memory;  // pinned
    cuda::Event fetched;
  };
  RunPlace& place_of_next();

  std::array<RunPlace, 2> places_of_run_;  // the second is made when two runs are first under way
  size_t newest_ = 0, done_ = 0;  // which of them the last fetch took, and the last that was waited for
  int under_way_ = 0;
};

}  // namespace genesis
