// A Session runs the entry points of a model on one device and holds its states between runs.
//
//   Session session(load_model("gpt.genesis"));
//   auto outputs = session.run("loss", {{"tokens", tokens}, {"targets", targets}});
//
// The model is where the states start from and is never written; save() writes what they have become.
//
// An entry point is compiled at its first run with a new set of sizes, and the plans used last are kept. All
// entry points share one arena. Weights that no compiled entry point writes are read where the file is
// mapped; the others are copied once. Sessions are independent of each other and may share a model.
//
// A Session is for one thread at a time: a call that comes while another goes on, from a second thread or
// from a callback, is an Error. Several threads may use one in turn.
#pragma once

#include <concepts>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "executor/inputs.h"
#include "executor/runtime/peaks.h"
#include "executor/runtime/runner.h"
#include "executor/session_options.h"
#include "schema/graph/model.h"

namespace genesis {

class StateSnapshot;
struct StateDictReport;

struct MemoryStatistics {
  int64_t arena_bytes = 0;   // one arena for all entry points
  int64_t state_bytes = 0;   // states with memory of their own
  int64_t mapped_bytes = 0;  // states and constants read where the model keeps them
  // What the process holds of a GPU's memory, and held at most.
  int64_t device_bytes = 0, device_peak_bytes = 0;
  int64_t plans = 0;            // kept; SessionOptions::max_plans bounds them
  int64_t optimizer_bytes = 0;  // of state_bytes, those of optimizers
};

class Session {
 public:
  explicit Session(std::shared_ptr<const Model> model, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const Model& model() const;
  const std::string& device() const;  // "cpu", "cuda" or "cuda:N": what "auto" has become

  // Runs an entry point. The outputs are copies, valid for good; to ask for one that is not there is an Error
  // that lists them.
  NamedTensors run(const std::string& entry, const NamedTensors& inputs = {});

  // run() as two calls: a device goes on after start(), and result() waits for it, once. In between, stage()
  // brings the inputs of the run that comes next near; that one then starts at once. Batches are found again
  // by being the same tensors. A second run may be started before the first one's result() is taken, which
  // comes first: a device then has no pause between the two.
  void start(const std::string& entry, const NamedTensors& inputs = {});
  void stage(const std::string& entry, const NamedTensors& inputs);
  NamedTensors result();
  // Whether start() returns while the device still works (a GPU).
  bool is_asynchronous() const;

  // Runs node by node as far as the first that makes a NaN or an infinity, and says which that is; empty when
  // none does. Like any run it changes the states, perhaps not all of them.
  std::string explain_nonfinite(const std::string& entry, const NamedTensors& inputs);

  // Compiles without running, for these sizes of the symbols, or for those that the inputs have: the plan that
  // run(entry, inputs) uses. It is a copy, valid for good. (A template, so that {} means that there are no symbols.)
  Plan plan(const std::string& entry, const Bindings& sizes = {});
  template <std::convertible_to<NamedTensors> Inputs = NamedTensors>
  Plan plan(const std::string& entry, const Inputs& inputs) {
    return plan(entry, sizes_of(entry, inputs));
  }
  // Runs with a timing per step of plan(entry, inputs).
  std::vector<StepTiming> profile(const std::string& entry, const NamedTensors& inputs);
  // Runs as ever, and tells what each thread or stream did when. To look costs a little, on a GPU the starts of kernels too:
  // there steps run on their streams one launch at a time, not as one graph.
  Timeline timeline(const std::string& entry, const NamedTensors& inputs);
  // By the device's own clock, back to back: uploads, downloads and the host stay out of it.
  double seconds_per_run(const std::string& entry, const NamedTensors& inputs, int repeats);
  // Runs and shows every step's data: for comparing two ways of running. The observer may not call this
  // session.
  void observe(const std::string& entry, const NamedTensors& inputs, const StepObserver& observer);
  // By step of that plan: the kernel that runs it, as `--disable kernel:NAME` calls it; on a GPU also
  // "megakernel", of which many steps can be part.
  std::vector<std::string> kernels(const std::string& entry, const NamedTensors& inputs);

  Tensor state(const std::string& name) const;  // a copy; throws Error naming near misses
  void set_state(const std::string& name, const Tensor& value);
  // All states by name but caches, as copies of one moment; and all of them at once: one Error lists those
  // that are missing, unexpected or of another type, and then nothing has changed. (Parameters and buffers alone,
  // from files of other programs: load_state_dict() in executor/state_dict.h.)
  NamedTensors states() const;
  void set_states(const NamedTensors& values);
  // The same with a file. It is a model file with the values that the states have now, so it runs by itself
  // and load_model() opens it; it is written atomically. load() takes the values from such a file,
  // checkpoints included, and leaves the model's entry points as they are. A training session goes on from a
  // file with the same optimizer; how many steps were done only checkpoints know (executor/training/checkpoint.h).
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);
  // What the model's random numbers follow from: that of the model's Scope, until another is set, which draws them
  // from their beginning. A state like others, so files and checkpoints keep it. Empty where the model draws none;
  // to set it then changes nothing.
  std::optional<uint64_t> seed() const;
  void set_seed(uint64_t seed);
  // Whether the ranks of the mesh share states (SessionOptions::zero). state(), states(), save() and whatever else gives
  // copies then gathers them from all ranks, which must all ask for the same at the same time. Where one alone needs all
  // states, the others take part.
  bool shares_states() const;
  void take_part_in_gather() const;
  void reset_states(StateRole role);  // back to their initial values (a KV cache before a new text)
  // For copies of all states that are made beside runs (executor/states/state_snapshot.h).
  std::unique_ptr<StateSnapshot> make_state_snapshot();
  MemoryStatistics memory() const;
  // Of the device, measured now.
  DevicePeaks measure_peaks();

 private:
  friend NamedTensors state_dict(const Session& session);
  friend std::unique_ptr<Model> with_values(const Session& session);
  friend StateDictReport load_state_dict(Session& session, const NamedTensors& tensors, bool strict);

  class Impl;
  Bindings sizes_of(const std::string& entry, const NamedTensors& inputs) const;
  // Of one moment, and all at once; names and types fit.
  NamedTensors states_that(bool (*is_wanted)(const State&)) const;
  void put_states(const NamedTensors& values);
  // Those that the model has encoded, with their parts as they are now; and back.
  std::map<int32_t, EncodedValues> encoded_values() const;
  void take_states(const Model& file);
  void put_encoded(const std::map<int32_t, EncodedValues>& values);

  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis
