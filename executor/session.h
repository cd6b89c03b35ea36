// A Session runs the entry points of a model on one device and holds its states between runs.
//
//     Session session(load_model("gpt.genesis"));
//     auto outputs = session.run("loss", {{"tokens", tokens}, {"targets", targets}});
//
// The model provides the initial values of the states and is never modified; save() writes the current values.
//
// An entry point is compiled at its first run with a new set of sizes; the most recently used plans are kept. All entry points
// share one arena; a plan that has prepared values of its states, such as packed weights, keeps them in another. Weights that no
// compiled entry point writes are read directly from the mapped file; the others are copied once. Sessions are independent of each
// other and may share a model.
//
// A Session may be used by one thread at a time: a call made while another one runs, from a second thread or from a callback, is
// an Error. Several threads may use one in turn.
//
// An Inspector (executor/inspector.h) tells what a session does on its device: kernels, times, values, memory.
#pragma once

#include <concepts>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "executor/inputs.h"
#include "executor/session_options.h"
#include "schema/graph/model.h"
#include "schema/graph/plan.h"

namespace genesis {

class CachePages;
class StateSnapshot;
struct StateDictReport;

class Session {
 public:
  explicit Session(std::shared_ptr<const Model> model, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const Model& model() const;
  const std::string& device() const;  // "cpu", "cuda" or "cuda:N"; never "auto"

  // Runs an entry point. The outputs are copies and stay valid. Reading an output that does not exist is an Error that lists the
  // outputs.
  NamedTensors run(const std::string& entry, const NamedTensors& inputs = {});

  // start() and result() are run() as two calls: start() launches the run and returns, result() waits for it and may be called
  // once per run. In between, stage() uploads the inputs of the next run ahead of time; a later start() recognizes them if it
  // gets the same tensors. A second run may be started before the first result() is taken, so that the device does not idle in
  // between. Results come in the order of the starts.
  void start(const std::string& entry, const NamedTensors& inputs = {});
  void stage(const std::string& entry, const NamedTensors& inputs);
  NamedTensors result();
  // Adds the entry points of a model that has the same states, in the same order: from then on they can be run by their names. There a
  // state may be smaller; it is the beginning of the session's own, such as the first rows of a cache, and set_state() takes values of
  // its size there, too. Throws Error if the states or their types differ otherwise, or if an entry point has a name that is taken.
  void add_entries(const std::shared_ptr<const Model>& model);
  // Returns true if the session's model or one of add_entries() has the entry point.
  bool has_entry(const std::string& entry) const;
  // Returns true if start() returns while the device still works (a GPU).
  bool is_asynchronous() const;

  // Compiles without running, for the given sizes of the symbols or for the sizes of `inputs`, and returns a copy of the plan
  // that run(entry, inputs) uses. (The second overload is a template, so that {} means no symbols.)
  Plan plan(const std::string& entry, const Bindings& sizes = {});
  template <std::convertible_to<NamedTensors> Inputs = NamedTensors>
  Plan plan(const std::string& entry, const Inputs& inputs) {
    return plan(entry, sizes_of(entry, inputs));
  }

  Tensor state(const std::string& name) const;  // a copy; throws Error that lists similar names
  void set_state(const std::string& name, const Tensor& value);
  // states() returns all states but caches by name, as a consistent copy. set_states() sets all of them at once: one Error lists
  // the states that are missing, unexpected or of another type, and then nothing has changed. (To set only parameters and
  // buffers, from files of other programs: load_state_dict() in executor/state_dict.h.)
  NamedTensors states() const;
  void set_states(const NamedTensors& values);
  // save() writes a model file with the current values of the states, atomically. The file is complete: load_model() opens it and
  // it can be run. load() takes the values from such a file, checkpoints included, and leaves the model's entry points as they
  // are. Training continues from a file with the same optimizer, but only checkpoints know how many steps were done
  // (executor/training/checkpoint.h).
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);
  // The seed of the model's random numbers: the seed of the model's Scope until another one is set. Setting it restarts the
  // random sequence. The seed is a state, so files and checkpoints keep it. seed() is empty if the model draws no random numbers;
  // then set_seed() changes nothing.
  std::optional<uint64_t> seed() const;
  void set_seed(uint64_t seed);
  // Returns true if the ranks of the mesh shard states (SessionOptions::zero). Then state(), states(), save() and everything else
  // that returns copies is a collective call: it gathers the shards, so all ranks must make the same call at the same time. If
  // one rank alone needs all states, the others call take_part_in_gather().
  bool shares_states() const;
  void take_part_in_gather() const;
  void reset_states(StateRole role);  // back to their initial values (a KV cache before a new text)
  // Gives the cache of a language model this many positions, no fewer than it has, while texts are in it: they keep their places.
  // The next runs compile their plans again, and references from model() become invalid. Throws Error if the model declares no
  // caches, if the device has not enough memory (then the cache is as before), and for a session of several ranks.
  void grow_cache(int64_t positions);

 private:
  friend class CachePages;
  friend class Inspector;
  friend NamedTensors state_dict(const Session& session);
  friend std::unique_ptr<Model> with_values(const Session& session);
  friend std::unique_ptr<StateSnapshot> make_state_snapshot(Session& session);
  friend StateDictReport load_state_dict(Session& session, const NamedTensors& tensors, bool strict);

  class Impl;
  Bindings sizes_of(const std::string& entry, const NamedTensors& inputs) const;
  // Read and write several states consistently. The callers have checked names and types.
  NamedTensors states_that(bool (*is_wanted)(const State&)) const;
  void put_states(const NamedTensors& values);
  // Read and write the states that the model has encoded, as their encoded parts.
  std::map<int32_t, EncodedValues> encoded_values() const;
  void take_states(const Model& file);
  void put_encoded(const std::map<int32_t, EncodedValues>& values);

  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis
