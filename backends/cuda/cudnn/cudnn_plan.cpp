// The plans of a graph: which of cuDNN's are allowed, which is taken, and how it is kept on disk and run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>

#include "backends/cuda/cudnn/cudnn_calls.h"
#include "backends/cuda/cudnn/cudnn_graph.h"
#include "backends/cuda/runtime/cache_folder.h"
#include "backends/cuda/runtime/kept_file.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {

cudnnHandle_t handle_of_device() {
  static std::array<cudnnHandle_t, 64> handles{};
  const int device = current_device();
  const std::lock_guard lock(handles_mutex);
  cudnnHandle_t& made = handles.at(static_cast<size_t>(device));
  if (!made) check_dnn(dnn().create(&made), "opening the library");
  return made;
}

// Returns false if the choice rounds f32 operands, or adds in the order in which blocks finish, and the graph forbids it.
bool CudnnGraph::may_use(const CudnnDescriptor& choice) const {
  if (!in_order_) return true;
  const CudnnDescriptor engine = make_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  if (dnn().get_attribute(choice.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                          &raw) != CUDNN_STATUS_SUCCESS ||
      dnn().get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()) != CUDNN_STATUS_SUCCESS)
    return false;
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    const bool rounds =
        note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION || (full_precision_ && rounds);
  });
}

namespace {

// cuDNN's best come first, and making one takes up to 0.1 s: a cold start stays short.
constexpr int kMaxMeasured = 6;
constexpr auto kBudget = std::chrono::milliseconds(150);  // to measure plans of one graph

// Returns cuDNN's engine configurations for a graph, its best first.
std::vector<CudnnDescriptor> choices_for(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristic = make_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set_descriptor(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  set_value(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  finalize(heuristic, "asking for plans");
  int64_t count = 0;
  check_dnn(dnn().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                0, &count, nullptr),
            "asking for plans");
  std::vector<CudnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    choices.push_back(make_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(choices.back().get());
  }
  if (count > 0)
    check_dnn(dnn().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
              "asking for plans");
  choices.resize(static_cast<size_t>(count));
  return choices;
}

// Devices with equal texts can run the same plans.
std::string words_of_device() {
  const Chip& chip = current_chip();
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  return fmt::format("{} {} {}.{} {}", chip.name, chip.multiprocessors, chip.major, chip.minor, driver);
}

int64_t workspace_of(const CudnnDescriptor& plan) {
  int64_t count = 0, bytes = 0;
  check_dnn(dnn().get_attribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                &count, &bytes),
            "asking for a workspace's size");
  return bytes;
}

// Plans that this process has made, as text by their keys: without a cache folder, too, equal graphs then have equal plans.
struct KeptPlans {
  std::mutex mutex;
  std::map<std::string, std::string> texts;

  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex);
    if (const auto found = texts.find(key); found != texts.end()) return found->second;
    const auto folder = cache_folder();
    return folder ? read_kept(*folder / (key + ".plan")) : std::nullopt;
  }
  // Returns the text that counts: another process or thread may have kept another plan of an equal graph meanwhile. The text
  // `unusable`, from which no plan could be made, is replaced.
  std::string add(const std::string& key, const std::string& text, const std::string& unusable) {
    const std::lock_guard lock(mutex);
    if (const auto found = texts.find(key); found != texts.end() && found->second != unusable)
      return found->second;
    const auto folder = cache_folder();
    return texts[key] = folder ? keep_first(*folder / (key + ".plan"), text, unusable) : text;
  }
};

KeptPlans& kept_plans() {
  static KeptPlans plans;
  return plans;
}

}  // namespace

CudnnPlan CudnnGraph::plan(int64_t workspace_limit, const Measure& measure) {
  const std::string key =
      hash_text(fmt::format("cuDNN plan {} {}{}\n{}\n{}", cudnn_version(), workspace_limit,
                            measure ? " measured" : "", words_of_device(), words_));
  std::optional<std::string> found;
  try {
    found = kept_plans().find(key);
    if (found) return CudnnPlan::restored(*found);
  } catch (const Error&) {  // then it is made again
  }
  CudnnPlan made = make_plan(workspace_limit, measure);
  const bool is_timed = !measure || std::isfinite(made.ms());
  const std::string text = is_timed ? made.text() : "";
  if (text.empty()) return made;
  try {
    if (const std::string kept = kept_plans().add(key, text, found.value_or("")); kept != text)
      return CudnnPlan::restored(kept);
  } catch (const Error&) {  // then this process keeps to its own
  }
  return made;
}

// The text has the plan's time, then cuDNN's own text.
CudnnPlan CudnnPlan::restored(const std::string& text) {
  CudnnPlan made;
  const size_t end = text.find('\n');
  if (end == std::string::npos) fail("the kept plan has no time");
  made.ms_ = std::strtof(text.c_str(), nullptr);
  made.handle_ = handle_of_device();
  made.plan_ = make_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_value(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, made.handle_);
  set_attribute(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                static_cast<int64_t>(text.size() - end - 1), text.data() + end + 1);
  finalize(made.plan_, "restoring a plan");
  return made;
}

// Returns the plan as text; empty if cuDNN cannot serialize it.
std::string CudnnPlan::text() const {
  int64_t size = 0;
  if (dnn().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
                          &size, nullptr) != CUDNN_STATUS_SUCCESS)
    return "";
  std::string text(static_cast<size_t>(size), '\0');
  if (dnn().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size,
                          &size, text.data()) != CUDNN_STATUS_SUCCESS)
    return "";
  text.resize(static_cast<size_t>(size));
  return fmt::format("{}\n{}", ms_, text);
}

// Returns the configurations that the graph allows, cuDNN's best first.
std::vector<CudnnDescriptor> CudnnGraph::choices() const {
  CudnnDescriptor graph = make_descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& operation : operations_) raw.push_back(operation.get());
  set_value(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_of_device());
  set_attribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                static_cast<int64_t>(raw.size()), raw.data());
  finalize(graph, "putting a graph together");
  std::vector<CudnnDescriptor> choices = choices_for(graph, CUDNN_HEUR_MODE_A);
  if (in_order_)  // the order may rule out all of the best
    for (CudnnDescriptor& choice : choices_for(graph, CUDNN_HEUR_MODE_FALLBACK))
      choices.push_back(std::move(choice));
  std::erase_if(choices, [&](const CudnnDescriptor& choice) { return !may_use(choice); });
  return choices;
}

CudnnPlan CudnnGraph::make_plan(int64_t workspace_limit, const Measure& measure) const {
  const auto until = std::chrono::steady_clock::now() + kBudget;
  std::string why = "it knows no plan";
  std::optional<CudnnPlan> best;
  int measured = 0;
  for (const CudnnDescriptor& choice : choices()) {
    if (best && (measured == kMaxMeasured || std::chrono::steady_clock::now() > until)) break;
    CudnnPlan made;
    made.handle_ = handle_of_device();
    made.plan_ = make_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_descriptor(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choice.get());
    set_value(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, made.handle_);
    if (const cudnnStatus_t status = dnn().finalize(made.plan_.get()); status != CUDNN_STATUS_SUCCESS) {
      why = dnn().error_string(status);
      continue;
    }
    if (const int64_t bytes = workspace_of(made.plan_); bytes > workspace_limit) {
      why = fmt::format("its plan needs {} bytes of workspace, {} are booked", bytes, workspace_limit);
      continue;
    }
    if (!measure) return made;
    made.ms_ = measure(made, best ? best->ms_ : std::numeric_limits<float>::infinity());
    ++measured;
    if (!best || made.ms_ < best->ms_) best = std::move(made);
  }
  if (best) return std::move(*best);
  fail("cuDNN does not run this graph: {}", why);
}

bool CudnnPlan::run(cudaStream_t stream, const std::vector<std::pair<int64_t, void*>>& pointers,
                    void* workspace) const {
  std::vector<int64_t> names;
  std::vector<void*> addresses;
  for (const auto& [name, address] : pointers) {
    names.push_back(name);
    addresses.push_back(address);
  }
  cudnnBackendDescriptor_t pack = nullptr;
  if (dnn().create_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) != CUDNN_STATUS_SUCCESS)
    return false;
  const CudnnDescriptor owner(pack);
  const auto count = static_cast<int64_t>(names.size());
  const auto attribute = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                             const void* values) {
    return dnn().set_attribute(pack, name, type, n, values) == CUDNN_STATUS_SUCCESS;
  };
  if (!attribute(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, names.data()) ||
      !attribute(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data()) ||
      !attribute(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace) ||
      dnn().finalize(pack) != CUDNN_STATUS_SUCCESS)
    return false;
  const std::lock_guard lock(handles_mutex);
  return dnn().set_stream(handle_, stream) == CUDNN_STATUS_SUCCESS &&
         dnn().execute(handle_, plan_.get(), pack) == CUDNN_STATUS_SUCCESS;
}

}  // namespace genesis::cuda
