#include "models/jobs/training_checks.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "passes/lora/lora.h"
#include "schema/core/error.h"
#include "schema/graph/text.h"
#include "schema/messages/log.h"

namespace genesis::jobs {
namespace {

constexpr const char* kTrainStep = "train_step";

bool has_any_loss(const Model& model) { return model.find_entry("loss") || model.find_entry("loss_packed"); }

[[noreturn]] void fail_no_loss(const std::string& file) {
  fail(
      "{} cannot be trained: it has no entry point 'loss'. `genesis-opt --inference` leaves it out of a "
      "model for inference: train the file that this one was made from",
      file);
}

// Returns true for states that belong to the model itself: weights, and buffers such as running statistics.
bool is_of_model(const State& state) {
  return state.role == StateRole::kParameter || state.role == StateRole::kBuffer;
}

std::string metadata_of(const Model& model, const std::string& key) {
  const auto at = model.metadata.find(key);
  return at == model.metadata.end() ? "" : at->second;
}

// Describes the first weight of `a` that `b` lacks or has with another type; empty if there is none.
std::string other_state(const NamedModel& a, const NamedModel& b) {
  for (const State& state : a.model.states()) {
    if (!is_of_model(state)) continue;
    const int32_t index = b.model.find_state(state.name);
    if (index < 0) return fmt::format("{} has '{}' and {} does not", a.file, state.name, b.file);
    const State& other = b.model.state(index);
    if (!(state.type == other.type))
      return fmt::format("'{}' is {} in {} and {} in {}", state.name, state.type.to_string(), a.file,
                         other.type.to_string(), b.file);
  }
  return "";
}

std::string other_loss(const NamedModel& a, const NamedModel& b) {
  const Graph *in_a = a.model.find_entry("loss"), *in_b = b.model.find_entry("loss");
  if (!in_a || !in_b || to_text(*in_a) == to_text(*in_b)) return "";
  return fmt::format("the entry point 'loss' of {} is another one than that of {}", a.file, b.file);
}

// Describes the first difference between the models; empty if they are the same model.
std::string difference(const NamedModel& a, const NamedModel& b) {
  const std::string kind_a = metadata_of(a.model, "architecture"),
                    kind_b = metadata_of(b.model, "architecture");
  if (kind_a != kind_b && !kind_a.empty() && !kind_b.empty())
    return fmt::format("{} is a {} and {} a {}", a.file, kind_a, b.file, kind_b);
  for (const std::string& found : {other_state(a, b), other_state(b, a), other_loss(a, b)})
    if (!found.empty()) return found;
  return "";
}

// Warns of weights in bf16 or f16. No f32 copy stands behind them, so an update smaller than half of a weight's last
// bit is lost.
void warn_of_short_weights(const Model& model) {
  const auto is_short = [](const State& state) {
    return state.role == StateRole::kParameter && state.trainable && !state.encoded &&
           is_float(state.type.dtype) && size_of(state.type.dtype) == 2;
  };
  const auto first = std::ranges::find_if(model.states(), is_short);
  if (first == model.states().end()) return;
  log_warning(
      "{} weights are {}, in which small updates of a training are lost: keep them in f32 (`genesis-build "
      "... --set "
      "dtype=f32`) and compute in bf16 with precision=bf16 among the training options",
      std::ranges::count_if(model.states(), is_short), name_of(first->type.dtype));
}

// Counts the running variances of batch norms that the entry point reads and does not update.
int64_t frozen_batch_norms(const Model& model, const Graph& entry) {
  return std::ranges::count_if(entry.values(), [&](const ValueInfo& value) {
    return value.kind == ValueKind::kState && model.state(value.index).role == StateRole::kBuffer &&
           model.state(value.index).name.ends_with("running_var") &&
           std::ranges::find(entry.updates(), value.index, &StateUpdate::state) == entry.updates().end();
  });
}

bool has_op(const Graph& entry, const std::set<std::string_view>& names) {
  return std::ranges::any_of(entry.nodes(),
                             [&](const Node& node) { return names.contains(node.op->name()); });
}

}  // namespace

void check_has_loss(const NamedModel& named, const std::string& loss) {
  if (!named.model.find_entry(loss) && !has_any_loss(named.model)) fail_no_loss(named.file);
}

void check_trainable(const NamedModel& named) {
  if (named.model.find_entry(kTrainStep)) return;
  if (!has_any_loss(named.model)) fail_no_loss(named.file);
  fail(
      "{0} has no entry point '{1}': add training with --optimizer adamw, or with `genesis-opt {0} "
      "--train adamw -o FILE`",
      named.file, kTrainStep);
}

void check_goes_on(const NamedModel& checkpoint, const NamedModel& named) {
  constexpr const char* kRemedy = "remove it, or name another folder with --checkpoint";
  if (!checkpoint.model.find_entry(kTrainStep))
    fail("cannot go on from the checkpoint {}: it has no entry point '{}', so no training wrote it: {}",
         checkpoint.file, kTrainStep, kRemedy);
  const std::string found = difference(checkpoint, named);
  if (found.empty()) return;
  const bool other_adapters = bool(passes::lora_of(checkpoint.model)) != bool(passes::lora_of(named.model));
  fail("cannot go on from the checkpoint {}: it is of another model than {}: {}: {}", checkpoint.file,
       named.file, found,
       other_adapters ? "give --lora as the run that wrote it did, or name another folder with --checkpoint"
                      : "name the model that it is of, or another folder with --checkpoint");
}

void check_quantized_training(const Model& model) {
  if (passes::lora_of(model)) return;
  warn_of_short_weights(model);
  size_t frozen = 0, matrices = 0, vectors = 0;
  for (const State& state : model.states()) {
    if (state.role != StateRole::kParameter) continue;
    if (state.encoded)
      ++frozen;
    else if (state.trainable)
      ++(state.type.shape.rank() > 1 ? matrices : vectors);
  }
  if (frozen == 0) return;
  constexpr const char* kRemedy =
      "`genesis-run train --lora 16` trains adapters beside them, or train first and quantize then (an "
      "import "
      "leaves none quantized with genesis-build --widen)";
  if (matrices == 0)
    fail(
        "{} weights are kept as q8, q4 or q4m, which no training changes, and only {} norms and biases would "
        "be "
        "trained: {}",
        frozen, vectors, kRemedy);
  log_warning(
      "{} weights are kept as q8, q4 or q4m and stay as they are: only {} other matrices (embedding, head) "
      "and {} "
      "norms and biases are trained; {}",
      frozen, matrices, vectors, kRemedy);
}

void warn_of_export(const Model& model) {
  const Graph& forward = model.entry("forward");
  if (const int64_t frozen = frozen_batch_norms(model, forward); frozen > 0)
    log_warning(
        "the program was exported for inference: {} batch norms use their running statistics, which training "
        "leaves as "
        "they are, and dropout is absent. To train them too, export model.train() with "
        "torch.export.export(...).run_decompositions()",
        frozen);
  else if (has_op(forward, {"convolution"}) &&
           !has_op(forward, {"batch_norm", "layer_norm", "rms_norm", "rsqrt", "sqrt", "var"}))
    log_warning(
        "the program has convolutions and no norms: if an export for inference has folded its batch norms "
        "into "
        "the convolutions, it trains without them; take a smaller learning rate, or export it as a .pt2 "
        "file, which "
        "keeps them");
}

}  // namespace genesis::jobs
