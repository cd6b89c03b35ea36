#include "tests/fuzz/try_run.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "executor/session.h"
#include "executor/switches.h"
#include "passes/core/bind.h"
#include "schema/file/layout.h"
#include "schema/graph/cost_model.h"
#include "schema/graph/text.h"
#include "tests/fuzz/random_graph.h"
#include "tests/schema/file_models.h"

namespace genesis::testing {
namespace {

// Limits of the work that is run here. Larger plans are made but not run.
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr double kMaxFlops = 3e8;

double some_real(Mutator& mutator) {
  static constexpr double kOdd[] = {0.0,
                                    -0.0,
                                    1e30,
                                    -1e30,
                                    std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN()};
  if (mutator.chance(200)) return kOdd[mutator.below(std::size(kOdd))];
  return static_cast<double>(mutator.below(2001)) / 500 - 2;
}

int64_t some_integer(Mutator& mutator, int kind) {
  if (kind == 0) return static_cast<int64_t>(mutator.below(4));
  return kind == 1 ? static_cast<int64_t>(mutator.below(12)) - 2 : mutator.number();
}

Tensor some_tensor(const TensorType& type, Mutator& mutator) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  const int kind = static_cast<int>(mutator.below(8));
  dispatch(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < type.numel(); ++i) {
      T& element = reinterpret_cast<T*>(data)[i];
      if constexpr (std::is_same_v<T, bool>)
        element = mutator.chance(2);
      else if constexpr (std::is_integral_v<T>)
        element = static_cast<T>(some_integer(mutator, kind == 7 ? 2 : kind > 4));
      else
        element = static_cast<T>(static_cast<float>(some_real(mutator)));
    }
  });
  return tensor;
}

// Reads every byte, so that a sanitizer detects memory that was never written or is out of bounds.
void read_all(const NamedTensors& outputs) {
  volatile double sum = 0;
  for (const auto& [name, tensor] : outputs)
    for (double value : tensor.to_doubles()) sum = value;
  static_cast<void>(sum);
}

bool is_small(const Model& model, const Plan& plan) {
  int64_t bytes = plan.arena_bytes;
  double flops = 0;
  for (const PlanPort& port : plan.inputs) bytes = checked_add(bytes, port.buffer.bytes);
  for (const PlanPort& port : plan.outputs) bytes = checked_add(bytes, port.buffer.bytes);
  for (const State& state : model.states()) bytes = checked_add(bytes, state.type.bytes());
  for (const Step& step : plan.steps) {
    const Cost cost = cost_of(step);
    flops += cost.flops + cost.bytes;
  }
  return bytes <= kMaxBytes && flops <= kMaxFlops;
}

// Returns the bits of all outputs of two successive runs, which share states; empty if the data stops a run.
std::optional<std::vector<std::string>> bits_of_two_runs(Session& session, const std::string& entry,
                                                         const NamedTensors& inputs) {
  std::vector<std::string> bits;
  try {
    for (int times = 0; times < 2; ++times) {
      const NamedTensors outputs = session.run(entry, inputs);
      read_all(outputs);
      for (const auto& [name, tensor] : outputs)
        bits.emplace_back(reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes()));
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return bits;
}

// Checks that sharing of memory and the number of threads do not change a bit.
void expect_same_bits(const std::shared_ptr<const Model>& model, SessionOptions options, const Graph& graph,
                      const NamedTensors& inputs, const std::vector<std::string>& bits) {
  options.threads = 3 - options.threads;
  for (const std::string_view step : step_switches()) options.disabled.emplace(step);
  Session session(model, options);
  if (bits_of_two_runs(session, graph.name(), inputs) != bits)
    throw std::runtime_error(
        fmt::format("results differ where no memory is shared, with {} threads, {}optimized:\n{}",
                    3 - options.threads, options.optimize ? "" : "not ", to_text(graph)));
}

RunOutcome run_entry(const std::shared_ptr<const Model>& model, const Graph& graph, Mutator& mutator) {
  Bindings bindings;
  for (const std::string& symbol : passes::symbols_of(graph))
    bindings[symbol] = random_size(mutator, mutator.chance(3));
  NamedTensors inputs;
  bool small = false;
  SessionOptions options;
  options.threads = static_cast<int>(1 + mutator.below(2));
  options.optimize = mutator.chance(2);
  Session session(model, options);
  try {
    const Plan plan = session.plan(graph.name(), bindings);
    small = is_small(*model, plan);
    if (small)
      for (const PlanPort& port : plan.inputs) inputs.emplace(port.name, some_tensor(port.type, mutator));
  } catch (const Error&) {
    return RunOutcome::kRefused;
  }
  if (!small) return RunOutcome::kTooLarge;
  const auto bits = bits_of_two_runs(session, graph.name(), inputs);
  if (!bits) return RunOutcome::kDataFault;
  expect_same_bits(model, options, graph, inputs, *bits);
  return RunOutcome::kRan;
}

// Aborts if a graph takes too long: an endless loop cannot be stopped in any other way.
class Watchdog {
 public:
  explicit Watchdog(int seconds_each) : thread_([this, seconds_each] { watch(seconds_each); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void begin(uint64_t graph) {
    const std::lock_guard lock(mutex_);
    graph_ = graph;
    began_ = std::chrono::steady_clock::now();
  }

 private:
  void watch(int seconds_each) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return done_; })) {
      if (std::chrono::steady_clock::now() - began_ < std::chrono::seconds(seconds_each)) continue;
      std::fprintf(stderr, "graph %llu is not done after %d s\n", static_cast<unsigned long long>(graph_),
                   seconds_each);
      std::abort();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  uint64_t graph_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::thread thread_;
};

// Returns the file of a random graph, sometimes with damaged records.
std::string graph_file(Mutator& mutator) {
  const auto model = random_graph(mutator);
  if (!mutator.chance(4)) return file_of(*model);
  file::Layout layout = file::lay_out(*model, {.segment_bytes = 1 << 20});
  for (uint64_t times = 1 + mutator.below(2); times > 0; --times) mutator.damage(layout.record);
  return file_of(layout.record, std::string(layout.data_bytes, '\0'));
}

}  // namespace

void RunCounts::add(RunOutcome outcome) {
  ++made;
  not_loaded += outcome == RunOutcome::kNotLoaded;
  refused += outcome == RunOutcome::kRefused;
  too_large += outcome == RunOutcome::kTooLarge;
  data_faults += outcome == RunOutcome::kDataFault;
  ran += outcome == RunOutcome::kRan;
}

std::string RunCounts::to_string() const {
  return fmt::format("{} graphs made, {} loaded, {} ran, {} stopped by their data, {} too large, {} refused",
                     made, loaded(), ran, data_faults, too_large, refused);
}

RunOutcome try_run(const std::string& bytes, Mutator& mutator) {
  std::shared_ptr<const Model> model;
  try {
    model = load_bytes(bytes);
  } catch (const Error&) {
    return RunOutcome::kNotLoaded;
  }
  RunOutcome outcome = RunOutcome::kRan;
  for (const auto& entry : model->entries()) outcome = run_entry(model, *entry, mutator);
  return outcome;
}

RunCounts run_random_graphs(uint64_t first, uint64_t count, double seconds, int seconds_each, bool trace) {
  RunCounts counts;
  Watchdog watchdog(seconds_each);
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t graph = first; graph < first + count; ++graph) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) break;
    if (trace) std::fprintf(stderr, "graph %llu\n", static_cast<unsigned long long>(graph));
    watchdog.begin(graph);
    Mutator mutator(graph);
    try {
      counts.add(try_run(graph_file(mutator), mutator));
    } catch (const std::exception& error) {
      throw std::runtime_error(fmt::format("graph {}: {}", graph, error.what()));
    }
  }
  return counts;
}

}  // namespace genesis::testing
