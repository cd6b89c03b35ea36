// The transfers of a run between host and GPU: its inputs and its outputs. Both go through pinned memory, so that the device
// copies asynchronously while the host and other runs go on.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "backends/cuda/runtime/runtime.h"
#include "executor/runtime/runner.h"
#include "schema/graph/plan.h"

namespace genesis {

// The inputs of a plan at device addresses where a captured graph reads them. There are two pinned buffers: while the
// inputs of one run are being uploaded or used, those of the next run can be written.
//
// An input that lies in the memory of this GPU (gpu_of()) is read in place, so a graph has to be captured again when its address
// changes. If addresses change with most runs, copies on the device are cheaper, and such inputs are copied from then on.
class InputBuffers {
 public:
  InputBuffers(const Plan& plan, int device);

  // Returns where runs with these inputs read them, by input. `host` has the callers' addresses, on the host or on this GPU.
  std::vector<std::byte*> addresses(const std::vector<std::byte*>& host);
  // Uploads the inputs on the stream of a run, before the run, unless they are read in place. `host`, by input, may be reused on
  // return if it is on the host.
  void bring(const std::vector<std::byte*>& host, cudaStream_t stream);
  // Uploads the inputs of the next run during a run, into separate memory and on a separate stream. The next bring() with the
  // same addresses uses them; their bytes must not have changed by then.
  void stage(const std::vector<std::byte*>& host);
  // Tells that the host has waited for all runs started so far.
  void runs_are_done();

 private:
  struct Pinned {
    std::shared_ptr<std::byte> memory;  // allocated on first use, like everything that only stage() needs
    cuda::Event uploaded;
    bool busy = false;     // an upload may still read it
    bool awaited = false;  // used by a started run: when the run is done, so is the upload
  };

  Pinned& fill(const std::vector<std::byte*>& host);
  Pinned& free_one();
  void upload(Pinned& from, std::byte* to, cudaStream_t stream);
  void bring_each(const std::vector<std::byte*>& given, cudaStream_t stream);
  bool some_on_gpu(const std::vector<std::byte*>& given) const;

  const Plan& plan_;
  int device_index_;
  std::vector<std::byte*> read_at_;  // the last result of addresses()
  int moves_ = 0;                    // number of results that differed from the one before
  std::vector<int64_t> offsets_;
  int64_t bytes_ = 0;
  std::shared_ptr<std::byte> device_;
  std::array<Pinned, 2> pinned_;

  std::vector<std::byte*> staged_;  // host addresses of the staged inputs; empty: none
  Pinned* staged_through_ = nullptr;
  std::shared_ptr<std::byte> staging_;  // on the device
  cuda::Stream side_;
  cuda::Event taken_;  // the run has copied the staged inputs
};

// Small outputs on the host, copied at the end of each run, so that the host waits once for a run and all its outputs. A second
// run that is started before the host has waited for the first has separate memory.
class OutputBuffers {
 public:
  // With `leaves_outputs`, outputs stay where they are in all runs and take no memory of the host.
  OutputBuffers(const Plan& plan, bool leaves_outputs);

  // Copies the outputs of a run behind it, or only marks its end if the run leaves them where they are.
  void fetch(const PlanMemory& memory, cudaStream_t stream, bool leaves_outputs);
  // Waits for the oldest fetch that has not been waited for; without one, for the stream.
  void wait(cudaStream_t stream);
  // Returns true if some fetch has not been waited for.
  bool are_under_way() const { return under_way_ > 0; }
  // Returns the output on the host, as fetched by the run that was waited for last. Returns null if the output must be read from
  // the device, because it is large, or is one of the inputs.
  const std::byte* at(size_t output) const {
    return places_[output] < 0 ? nullptr : places_of_run_[done_].memory.get() + places_[output];
  }
  bool has_all() const;

 private:
  const Plan& plan_;
  std::vector<int64_t> places_;  // by output; -1: not fetched
  int64_t bytes_ = 0;            // per run
  struct RunPlace {
    std::shared_ptr<std::byte> memory;  // pinned
    cuda::Event fetched;
  };
  RunPlace& place_of_next();

  std::array<RunPlace, 2> places_of_run_;  // the second is made when two runs are first under way
  size_t newest_ = 0, done_ = 0;           // indices of the last fetch started and of the last waited for
  int under_way_ = 0;
};

}  // namespace genesis
