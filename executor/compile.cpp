#include "executor/compile.h"

#include <algorithm>
#include <map>

#include "executor/environment.h"
#include "executor/plan_buffers.h"
#include "executor/switches.h"
#include "passes/core/bind.h"
#include "passes/core/prepared_values.h"
#include "passes/distribution/expert_shards.h"
#include "passes/distribution/optimizer_shards.h"
#include "passes/distribution/peers.h"
#include "passes/distribution/pipeline/stages.h"
#include "passes/distribution/tensor_shards.h"
#include "passes/fusion/elementwise/expand_formulas.h"
#include "passes/memory/make_plan.h"
#include "passes/pipelines.h"
#include "passes/precision/passes.h"
#include "schema/core/parse_number.h"
#include "schema/graph/bodies.h"
#include "schema/graph/state_cuts.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis {
namespace {

// Returns the budget of the options if given, else that of the model's metadata.
std::optional<int64_t> memory_budget(const Model& model, const SessionOptions& options) {
  const auto at = model.metadata.find("memory_budget");
  if (options.memory_budget || at == model.metadata.end()) return options.memory_budget;
  const std::optional<int64_t> bytes = parse_number<int64_t>(at->second);
  if (!bytes || *bytes < 0)
    fail("the model's metadata give '{}' as memory_budget, expected a number of bytes", at->second);
  return bytes;
}

// Returns the function to call after each pass that changed the graph; empty if nothing observes the graph.
decltype(passes::PipelineOptions::on_change) change_listener(const SnapshotObserver& observe) {
  auto dump = environment().dump_folder.empty() ? nullptr : passes::dump_to_folder(environment().dump_folder);
  if (!observe) return dump;
  return [dump, &observe](int number, const passes::Pass& pass, const Graph& graph) {
    if (dump) dump(number, pass, graph);
    observe({pass.name, pass.why, graph});
  };
}

Graph optimize(Graph bound, const Target& target, const Switches& switches, std::optional<int64_t> budget,
               const StateStorage& storage, const SessionOptions& options, const SnapshotObserver& observe) {
  passes::PassContext context;
  context.mesh = options.mesh;
  context.rank = options.rank;
  context.zero = options.zero;
  context.target = &target;
  context.storage = &storage;
  context.memory_budget = budget;
  passes::PipelineOptions pipeline;
  pipeline.disabled = switches.passes;
  pipeline.verify_each = false;
  pipeline.on_change = change_listener(observe);
  return passes::run_passes(bound, passes::pipeline_for(bound), context, pipeline);
}

// Returns the graph with formulas in the place of nodes that the target has no kernel for.
Graph runnable(Graph bound, const Target& target) {
  passes::PassContext context;
  context.target = &target;
  return passes::has_formulas(bound, context) ? passes::expand_formulas(bound, context) : std::move(bound);
}

void append(StateStorage& storage, const StateStorage& more, const Model& model) {
  storage.groups.insert(storage.groups.end(), more.groups.begin(), more.groups.end());
  number_parts(storage, model.states().size());
}

// Returns the storage of the states that the model has encoded. If `slices` cuts such a state, its group refers to the slice.
StateStorage encoded_slices(const Model& model, const StateStorage& slices) {
  std::map<int32_t, int32_t> slice_of;
  for (const StoredGroup& group : slices.groups)
    if (is_slice(group)) slice_of[group.members[0]] = group.parts[0];
  StateStorage storage = encoded_states(model);
  for (StoredGroup& group : storage.groups)
    if (const auto slice = slice_of.find(group.members[0]); slice != slice_of.end())
      group.members = {slice->second};
  return storage;
}

Switches switches_of(const SessionOptions& options, const Target& target) {
  return parse_switches_and_environment(options.disabled, target);
}

// Returns the storage of the weights that may be kept in parts.
StateStorage weights_to_store(const Model& model, const Target& target, const SessionOptions& options,
                              const Switches& switches) {
  const bool pays = options.optimize && options.weight_halves.value_or(target.prefers_weight_halves);
  if (!pays || switches.passes.contains("use_weight_halves")) return {};
  return passes::find_stored_weights(model);
}

// Returns true if the ranks along "data" shard states.
bool shares_states(const SessionOptions& options, const Switches& switches) {
  return options.zero > 0 && options.mesh.size(kDataAxis) > 1 && !switches.passes.contains("shard_optimizer");
}

// Returns storage_of_all(), with weights kept in parts added where that pays. Nothing is added if storage_of_all() has already
// decided about weights for all entry points.
StateStorage storage_for(const Model& model, const std::string& entry, const Target& target,
                         const SessionOptions& options, const Switches& switches, bool are_stored) {
  StateStorage storage = storage_of_all(model, target, options);
  const auto is_kept_by_some = [](const StoredGroup& group) { return group.shard && !is_slice(group); };
  if (shares_states(options, switches) || std::ranges::any_of(storage.groups, is_kept_by_some))
    return storage;
  const StateStorage stored = weights_to_store(model, target, options, switches);
  if (!are_stored && !passes::updates_stored(model.entry(entry), stored)) return storage;
  append(storage, passes::stored_slices(model, stored, storage), model);
  return storage;
}

// Returns true for the inference of a network with convolutions. Others compute little from their states alone.
bool convolves_only(const Graph& graph) {
  const auto convolves = [](const Node& node) { return is<ops::Convolution>(*node.op); };
  return !passes::trains(graph) && std::ranges::any_of(graph.nodes(), convolves);
}

// Each rank runs a loop by itself, and need not take as many steps as the others: a step that waited for them might wait in vain.
void check_body_of_rank(const Graph& body) {
  for (const Node& node : body.nodes())
    if (node.op->info.collective)
      fail(
          "its node '{}' ({}) exchanges data with the other ranks, which need not take as many steps: "
          "expected a body that reads only what every rank has whole; use one rank along the mesh axis '{}'",
          node.authored_name(), node.op->name(), axis_of(*node.op, node.attributes));
}

// Makes graphs of a compilation from entry points of the model: the one that is compiled, and the bodies of its loops.
struct EntryPasses {
  const Model& model;
  const Bindings& bindings;
  const Target& target;
  const SessionOptions& options;
  const CompiledEntry& compiled;  // its work model and storage

  Graph run(const std::string& entry, const Switches& switches, const SnapshotObserver& observe) const {
    Graph authored = copy_graph(model.entry(entry), *compiled.work);
    if (passes::has_quantized(compiled.storage))
      authored = passes::decode_quantized(authored, compiled.storage);
    Graph graph = passes::bind(authored, bindings);
    passes::check_peers(graph, options.mesh, options.rank);
    if (observe) observe({"bind", "sizes take the place of symbols", graph});
    if (!options.optimize) return runnable(std::move(graph), target);
    return optimize(std::move(graph), target, switches, memory_budget(model, options), compiled.storage,
                    options, observe);
  }

  // Innermost first: the memory of a loop is known once its body has a plan. Weights are not packed, because only the plan around the
  // loops has prepared values.
  std::vector<Plan> plans_of_bodies(const Graph& graph, Switches switches) const {
    switches.passes.insert("pack_weights");
    std::vector<Plan> plans;
    for (const std::string& name : bodies_of(graph))
      with_context(
          [&] {
            const Graph body = run(name, switches, {});
            check_body_of_rank(body);
            plans.push_back(passes::make_plan(body, target, switches.plan, plans_of_bodies(body, switches)));
          },
          [&] { return "while compiling the body '" + name + "' of a loop"; });
    return plans;
  }
};

void check_loops(const Graph& graph, const SessionOptions& options) {
  check_bodies(graph);
  if (options.mesh.size(kPipelineAxis) > 1 && !bodies_of(graph).empty())
    fail(
        "entry point '{}' has loops whose number of steps depends on data, which the {} stages of a "
        "pipeline cannot share: use one stage",
        graph.name(), options.mesh.size(kPipelineAxis));
}

}  // namespace

// A state is sharded only if the pass that handles its shards runs; otherwise every rank keeps the whole state.
StateStorage storage_of_all(const Model& model, const Target& target, const SessionOptions& options) {
  const Switches switches = switches_of(options, target);
  const auto runs = [&](const char* pass) { return options.optimize && !switches.passes.contains(pass); };
  StateStorage storage;
  if (runs("partition_experts")) storage = passes::find_expert_shards(model, options.mesh, options.rank);
  if (runs("partition") && (runs("decode_slices") || encoded_states(model).groups.empty()))
    append(storage, passes::find_tensor_shards(model, options.mesh, options.rank, target), model);
  append(storage, encoded_slices(model, storage), model);
  if (runs("split_stages"))
    append(storage, passes::find_stage_states(model, options.mesh, options.rank, options.zero, target),
           model);
  if (!shares_states(options, switches)) return storage;
  const StateStorage stored = weights_to_store(model, target, options, switches);
  const int zero = runs("gather_weights") ? options.zero : std::min(options.zero, 2);  // 3 shares weights
  append(storage, passes::find_shards(model, options.mesh, options.rank, zero, stored, storage), model);
  return storage;
}

CompiledEntry compile_entry(const Model& model, const std::string& entry, const Bindings& bindings,
                            const Target& given, const SessionOptions& options, bool are_stored,
                            const SnapshotObserver& observe) {
  CompiledEntry compiled{.work = Model::with_tables_of(model),
                         .plan = {},
                         .runner = {},
                         .storage = {},
                         .prepared = {},
                         .prepared_tensors = {}};
  Switches switches = switches_of(options, given);
  // Packed weights belong to one plan, and a model with open sizes has many.
  if (!bindings.empty()) switches.passes.insert("pack_weights");
  compiled.runner = switches.runner;
  compiled.runner.collectives = options.collectives;
  Target target = given;
  target.disabled_kernels = switches.runner.disabled_kernels;
  check_loops(model.entry(entry), options);
  compiled.storage = storage_for(model, entry, target, options, switches, are_stored);
  add_parts(*compiled.work, compiled.storage);
  passes::check_axes(model, options.mesh);
  const EntryPasses compilation{model, bindings, target, options, compiled};
  Graph graph = compilation.run(entry, switches, observe);
  if (options.optimize && compiled.storage.empty() && convolves_only(graph)) {
    if (auto split = passes::split_prepared_values(graph, *compiled.work)) {
      compiled.prepared = passes::make_plan(split->values, target, switches.plan);
      compiled.prepared_tensors = std::move(split->tensors);
      graph = std::move(split->main);
      if (observe) observe({"prepare_values", "values of states alone are computed once", graph});
    }
  }
  std::vector<Plan> bodies = compilation.plans_of_bodies(graph, switches);
  compiled.plan = passes::make_plan(graph, target, switches.plan, std::move(bodies));
  compiled.plan.bindings = bindings;
  return compiled;
}

int64_t state_bytes(const CompiledEntry& compiled) {
  std::set<int32_t> states(compiled.plan.written_states.begin(), compiled.plan.written_states.end());
  for_each_buffer(compiled.plan, [&](const BufferRef& ref) {
    if (ref.space == Space::kState) states.insert(ref.index);
  });
  int64_t bytes = 0;
  for (const int32_t index : states) bytes += compiled.work->state(index).type.bytes();
  return bytes;
}

int64_t optimizer_bytes(const CompiledEntry& compiled) {
  int64_t bytes = 0;
  for (const int32_t index : compiled.plan.written_states) {
    const State& state = compiled.work->state(index);
    if (state.role == StateRole::kOptimizer) bytes += state.type.bytes();
  }
  return bytes;
}

}  // namespace genesis
