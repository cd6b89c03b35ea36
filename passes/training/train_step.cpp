#include "passes/training/train_step.h"

#include <algorithm>

#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "passes/core/name_patterns.h"
#include "passes/pipelines.h"
#include "passes/training/autodiff.h"
#include "passes/training/loss_scale.h"
#include "passes/training/parameter_updates.h"
#include "passes/training/plateau.h"
#include "passes/training/step_outputs.h"
#include "passes/training/training_loss.h"
#include "passes/training/weight_average.h"
#include "schema/graph/inactive_layers.h"
#include "schema/messages/log.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// Returns the gradient as the backward pass made it, without a cast to f32: the cast adds no information, and every reader here
// computes in f32 anyway.
Value without_widening(Value gradient) {
  const auto widening = match<ops::Cast>(*gradient.graph, gradient.id);
  if (!widening || gradient.dtype() != DType::f32) return gradient;
  const Value source = gradient.graph->handle(widening.input(0));
  return is_low_precision(source.dtype()) ? source : gradient;
}

// Returns whether the input is split into micro-batches: its leading size is that of the first input.
bool is_batched(const Graph& graph, ValueId input) {
  const Shape &first = graph.type(graph.inputs()[0]).shape, &shape = graph.type(input).shape;
  return first.rank() > 0 && shape.rank() > 0 && shape[0] == first[0];
}

class TrainStep {
 public:
  TrainStep(Model& model, const TrainOptions& options)
      : model_(model),
        options_(options),
        loss_graph_(training_loss(model, options)),
        graph_(model, options.name),
        live_states_(read_states()),
        outputs_(loss_graph_, options) {}

  Graph build() {
    if (options_.precision == TrainPrecision::kF16) loss_scale_.emplace(model_, graph_, options_);
    add_inputs();
    find_parameters();
    count_targets();
    for (int64_t i = 0; i < options_.accumulate; ++i) add_micro_batch(i);
    std::erase_if(parameters_, [](const TrainedParameter& p) { return !p.gradient; });
    if (parameters_.empty()) fail("output '{}' does not depend on any parameter to train", options_.output);
    add_optimizer();
    for (const auto& [state, value] : current_) graph_.add_update(state, value);
    return std::move(graph_);
  }

 private:
  // Returns the states that live nodes of the loss read.
  std::vector<int32_t> read_states() const {
    const Uses uses(loss_graph_);
    std::vector<int32_t> states;
    for (size_t i = 0; i < loss_graph_.values().size(); ++i) {
      const ValueInfo& value = loss_graph_.values()[i];
      if (value.kind == ValueKind::kState && uses.count({static_cast<int32_t>(i)}) > 0)
        states.push_back(value.index);
    }
    std::ranges::sort(states);
    return states;
  }

  // Fails if the step would have too many nodes: each micro-batch has its own nodes, and their gradients add more.
  void check_size_of_step() const {
    constexpr int64_t kMaxNodes = 96 << 10;  // about the limit of a graph in a file
    const auto nodes = static_cast<int64_t>(loss_graph_.nodes().size());
    if (options_.accumulate > 1 && options_.accumulate * nodes > kMaxNodes)
      fail("accumulate={} micro-batches of {} nodes each make a step that is too large: give {} or fewer",
           options_.accumulate, nodes, std::max<int64_t>(1, kMaxNodes / nodes));
  }

  void add_inputs() {
    check_size_of_step();
    if (options_.accumulate > 1 && loss_graph_.inputs().empty())
      fail("entry point '{}' has no inputs to cut into micro-batches", loss_graph_.name());
    for (ValueId id : loss_graph_.inputs()) {
      TensorType type = loss_graph_.type(id);
      if (options_.accumulate > 1 && is_batched(loss_graph_, id))
        type.shape[0] = type.shape[0] * Dim(options_.accumulate);
      inputs_.push_back(graph_.add_input(loss_graph_.value(id).name, type));
    }
  }

  void find_parameters() {
    std::vector<std::string> trainable;
    for (int32_t index : live_states_) {
      const State& state = model_.state(index);
      if (state.role != StateRole::kParameter || !state.trainable) continue;
      trainable.push_back(state.name);
      if (is_chosen(state.name)) parameters_.push_back({index, graph_.state(index), {}});
    }
    check_groups_match(options_.groups, trainable);
    if (parameters_.empty())
      fail("there is no parameter to train in entry point '{}' (train={}, freeze={})", loss_graph_.name(),
           fmt::format("{}", options_.train.empty() ? "" : options_.train[0]),
           options_.freeze.empty() ? "" : options_.freeze[0]);
  }

  bool is_chosen(const std::string& parameter) const {
    const ParameterGroup* group = group_of(options_.groups, parameter);
    return matches_any(options_.train, parameter) && !matches_any(options_.freeze, parameter) &&
           !(group && group->freeze);
  }

  // Computes the divisors of the means over targets that the loss contains: the average, over the micro-batches and the ranks
  // along "data", of the divisors that these would use themselves. So every target of the whole batch counts alike.
  void count_targets() {
    const Graph weights = weights_of_means(loss_graph_, options_.output, means_);
    if (weights.outputs().empty()) return means_.clear();
    const InlinedGraph batch = inline_graph(graph_, weights, inputs_, current_);
    for (const NamedValue& output : weights.outputs()) divisors_.push_back(batch.outputs.at(output.name));
    if (options_.accumulate > 1)
      for (Value& divisor : divisors_) divisor = divisor * (1.0 / double(options_.accumulate));
    divisors_ = all_reduce(divisors_, kDataAxis, RankReduction::kMean);
  }

  // Returns the mean of a loss node over all targets of the batch; empty for other nodes.
  Value mean_of_batch(const Node& node, const std::vector<Value>& inputs) {
    const auto at = std::ranges::find(means_, id_of(loss_graph_, node));
    if (at == means_.end()) return {};
    return divided_mean(graph_, node, inputs, divisors_[static_cast<size_t>(at - means_.begin())]);
  }

  std::vector<Value> inputs_of(int64_t micro_batch) {
    if (options_.accumulate == 1) return inputs_;
    std::vector<Value> parts;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const ValueId id = loss_graph_.inputs()[i];
      if (!is_batched(loss_graph_, id)) {
        parts.push_back(inputs_[i]);
        continue;
      }
      const Dim length = loss_graph_.type(id).shape[0];
      const NameScope scope(graph_, inputs_[i].name());
      parts.push_back(narrow(inputs_[i], 0, length * Dim(micro_batch), length));
    }
    return parts;
  }

  void add_micro_batch(int64_t number) {
    const size_t first_node = graph_.nodes().size();
    const InlinedGraph part = inline_graph(
        graph_, loss_graph_, inputs_of(number), current_,
        [this](const Node& node, const std::vector<Value>& inputs) { return mean_of_batch(node, inputs); });
    const auto output = part.outputs.find(options_.output);
    if (output == part.outputs.end()) {
      std::string known;
      for (const auto& [name, value] : part.outputs) known += (known.empty() ? "" : ", ") + name;
      fail("entry point '{}' has no output '{}' to minimize; it has: {}", loss_graph_.name(), options_.output,
           known);
    }
    Value loss = output->second;
    if (options_.accumulate > 1) loss = loss * (1.0 / double(options_.accumulate));
    add_gradients(loss_scale_ ? loss * loss_scale_->scale() : loss, first_node);
    loss_ = loss_ ? loss_ + loss : loss;
    outputs_.add(part);
    advance_states(part);
  }

  void add_gradients(Value loss, size_t first_node) {
    std::vector<Value> wrt;
    for (const TrainedParameter& p : parameters_) wrt.push_back(p.value);
    const std::vector<Value> gradients = gradients_if_any(graph_, loss, wrt, first_node);
    for (size_t i = 0; i < wrt.size(); ++i) {
      TrainedParameter& p = parameters_[i];
      const NameScope scope(graph_, wrt[i].name() + ".grad");
      p.gradient = p.gradient && gradients[i] ? p.gradient + gradients[i] : gradients[i];
    }
  }

  void check_not_trained(int32_t state) const {
    for (const TrainedParameter& p : parameters_)
      if (p.state == state)
        fail("entry point '{}' updates the parameter '{}' itself: freeze it to train the others",
             loss_graph_.name(), model_.state(state).name);
  }

  // Records the state values that the next micro-batch, and finally the next step, starts from.
  void advance_states(const InlinedGraph& part) {
    for (const auto& [state, value] : part.updates) {
      check_not_trained(state);
      current_[state] = value;
    }
    for (int32_t state : live_states_) {
      if (model_.state(state).role != StateRole::kRandom || part.updates.contains(state)) continue;
      const auto at = current_.find(state);
      current_[state] = rng_next(at == current_.end() ? graph_.state(state) : at->second);
    }
  }

  void add_optimizer() {
    const NameScope scope(graph_, "optimizer");
    Value factor;  // factor of the gradients; empty: 1
    average_over_ranks();
    const Value norm = prepare_gradients(factor);
    const Value done = graph_.state(add_state("optimizer.step", {DType::i64, {}}, StateRole::kStep));
    const Value step = loss_scale_ ? done + cast(loss_scale_->finite(), DType::i64) : done + 1;
    const Value lr = learning_rate(done);
    add_parameter_updates({lr, step, factor, loss_scale_ ? loss_scale_->finite() : Value()});
    if (options_.ema > 0) average_weights(done);
    current_[model_.find_state("optimizer.step")] = step;
    graph_.add_output("loss", loss_);
    graph_.add_output("grad_norm", norm);
    graph_.add_output("lr", lr);
    if (loss_scale_) {
      for (const auto& [state, value] : loss_scale_->updates()) current_[state] = value;
      loss_scale_->add_outputs(graph_);
    }
    outputs_.add_to(graph_);
  }

  // Averages losses, gradients and running statistics over the ranks along "data", each of which has a share of the batch. The
  // all_reduce disappears if there is one rank or no such axis.
  void average_over_ranks() {
    std::vector<Value*> values;
    for (TrainedParameter& p : parameters_) {
      if (options_.clip_value <= 0) p.gradient = without_widening(p.gradient);
      values.push_back(&p.gradient);
    }
    average(values);
    values = {&loss_};
    for (Value* mean : outputs_.means()) values.push_back(mean);
    for (auto& [state, value] : current_)
      if (model_.state(state).role == StateRole::kBuffer && is_float(value.dtype())) values.push_back(&value);
    average(values);
  }

  static void average(const std::vector<Value*>& values) {
    std::vector<Value> before;
    for (const Value* value : values) before.push_back(*value);
    const std::vector<Value> after = all_reduce(before, kDataAxis, RankReduction::kMean);
    for (size_t i = 0; i < values.size(); ++i) *values[i] = after[i];
  }

  Value learning_rate(Value steps_done) {
    Value lr;
    if (const auto* plateau = std::get_if<optim::PlateauLR>(&options_.schedule))
      optim::add_plateau(model_, *plateau, base_lr());
    else
      lr = graph_.state(optim::add_base_lr(model_, base_lr()));
    return optim::scheduled_lr(options_.schedule, lr, steps_done);
  }

  // Clips each element if `clip_value` is set and returns the norm of the result. `factor` becomes the factor of gradients in
  // the updates: it clips by norm and undoes the loss scale.
  Value prepare_gradients(Value& factor) {
    if (!loss_scale_) {
      if (options_.clip_value > 0) clip_elements();
      const Value norm = norm_of_gradients();
      if (options_.clip > 0) factor = clip_scale(norm, options_.clip);
      return norm;
    }
    Value unscale = loss_scale_->unscale(), norm = norm_of_gradients() * unscale;
    loss_scale_->decide(norm);
    keep_buffers_unless_finite();
    if (options_.clip_value > 0) {
      for (TrainedParameter& p : parameters_) p.gradient = p.gradient * unscale;
      clip_elements();
      norm = norm_of_gradients();
      unscale = scalar_like(norm, 1.0);
    }
    factor = loss_scale_->or_skip(options_.clip > 0 ? clip_scale(norm, options_.clip) * unscale : unscale);
    return norm;
  }

  Value norm_of_gradients() const {
    std::vector<Value> gradients;
    for (const TrainedParameter& p : parameters_) gradients.push_back(p.gradient);
    // Sums each gradient by its own node if nothing waits for the norm: a gradient is then free once its parameter is updated.
    return global_norm(gradients, options_.clip <= 0 && !loss_scale_);
  }

  void clip_elements() {
    for (TrainedParameter& p : parameters_) p.gradient = clip_by_value(p.gradient, options_.clip_value);
  }

  // Leaves running statistics unchanged in a skipped step: the values that overflowed may have reached them.
  void keep_buffers_unless_finite() {
    for (auto& [state, value] : current_)
      if (is_float(value.dtype())) value = where(loss_scale_->finite(), value, graph_.state(state));
  }

  double base_lr() const {
    return std::visit([](const auto& optimizer) { return optimizer.lr; }, options_.optimizer);
  }

  void add_parameter_updates(const UpdateScalars& scalars) {
    ParameterUpdates updates(model_, graph_, loss_graph_, options_, scalars);
    for (const TrainedParameter& p : parameters_)
      with_context([&] { updates.add(p); },
                   [&] { return "in the update of parameter '" + model_.state(p.state).name + "'"; });
    for (const auto& [state, value] : updates.results()) current_[state] = value;
  }

  void average_weights(Value steps_done) {
    std::vector<int32_t> states;
    for (const TrainedParameter& p : parameters_) states.push_back(p.state);
    add_averages(model_, graph_, options_, states, steps_done, loss_scale_ ? loss_scale_->finite() : Value(),
                 current_);
  }

  int32_t add_state(const std::string& name, const TensorType& type, StateRole role) {
    return model_.add_state({.name = name, .type = type, .role = role, .trainable = false, .initial = {}});
  }

  Model& model_;
  const TrainOptions& options_;
  const Graph loss_graph_;
  Graph graph_;
  std::vector<int32_t> live_states_;
  std::vector<Value> inputs_;
  std::vector<NodeId> means_;    // nodes of the loss that are means over targets
  std::vector<Value> divisors_;  // the divisor of each
  std::vector<TrainedParameter> parameters_;
  std::map<int32_t, Value> current_;     // the newest value by state
  std::optional<LossScale> loss_scale_;  // only for f16
  Value loss_;
  StepOutputs outputs_;
};

// Reports errors that can be found before anything is added.
void check_can_train(const Model& model, const TrainOptions& options) {
  check_train_options(options);
  if (model.find_entry(options.name))
    fail("the model already has an entry point '{}': remove it, or give another name", options.name);
  if (std::holds_alternative<optim::PlateauLR>(options.schedule) && model.find_entry(optim::kPlateauEntry))
    fail("the model already has an entry point '{}', which the schedule '{}' would make",
         optim::kPlateauEntry, optim::PlateauLR::kName);
  if (model.find_state("optimizer.step") >= 0)
    fail("the model already holds the states of an optimizer ('optimizer.step')");
}

// Warns if the loss was built for evaluation: it is trained as it is, which is seldom intended.
void warn_of_inactive_layers(const Model& model, const TrainOptions& options) {
  const std::string layer = inactive_layer(model, options.entry);
  if (layer.empty()) return;
  log_warning(
      "entry point '{0}' was built for evaluation, so {1} (and what is like it) does nothing in training: "
      "build it "
      "with GraphBuilder(model, \"{0}\", Mode::kTrain)",
      options.entry, layer);
}

}  // namespace

void add_train_step(Model& model, const TrainOptions& options) {
  check_can_train(model, options);
  warn_of_inactive_layers(model, options);
  Graph graph =
      with_context([&] { return TrainStep(model, options).build(); },
                   [&] { return "while making '" + options.name + "' of '" + options.entry + "'"; });
  model.replace_entry(std::move(graph));
  model.metadata["training"] = to_string(options);
}

void add_training(Model& model, const TrainOptions& options, const PipelineOptions& pipeline) {
  check_can_train(model, options);
  const Graph& loss = std::as_const(model).entry(options.entry);
  model.replace_entry(run_passes(loss, preparation_pipeline(), {}, pipeline));
  add_train_step(model, options);
}

}  // namespace genesis::passes
