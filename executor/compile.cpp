#include "executor/compile.h"

#include <charconv>

#include "executor/environment.h"
#include "passes/core/bind.h"
#include "passes/memory/make_plan.h"
#include "passes/pipelines.h"

namespace genesis {
namespace {

passes::PlanOptions plan_options(const std::set<std::string>& disabled) {
  const auto on = [&](std::string_view name) { return !disabled.contains(std::string(name)); };
  return {.in_place = on(passes::kInPlaceSwitch),
          .schedule = on(passes::kOrderSwitch),
          .reuse = on(passes::kReuseSwitch),
          .side_stream = on(passes::kSideStreamSwitch),
          .megakernel = on(passes::kMegakernelSwitch)};
}

// What the options say, else what the model says.
std::optional<int64_t> memory_budget(const Model& model, const SessionOptions& options) {
  const auto at = model.metadata.find("memory_budget");
  if (options.memory_budget || at == model.metadata.end()) return options.memory_budget;
  int64_t bytes = 0;
  const std::string& text = at->second;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || stop != text.data() + text.size() || bytes < 0)
    fail("the model's metadata give '{}' as memory_budget, expected a number of bytes", text);
  return bytes;
}

Graph optimise(Graph bound, const Target& target, const std::set<std::string>& disabled,
               std::optional<int64_t> budget, const passes::WeightSplit& split) {
  passes::PassContext context;
  context.target = &target;
  context.split = &split;
  context.memory_budget = budget;
  passes::PipelineOptions pipeline;
  pipeline.disabled.insert(disabled.begin(), disabled.end());
  if (!environment().dump_folder.empty())
    pipeline.on_change = passes::dump_to_folder(environment().dump_folder);
  return passes::run_passes(bound, passes::pipeline_for(bound), context, pipeline);
}

passes::WeightSplit split_of(const Model& model, const std::string& entry, const Target& target,
                             const SessionOptions& options, const std::set<std::string>& disabled,
                             bool are_split) {
  const bool pays = options.optimise && options.split_weights.value_or(target.splits_weights);
  if (!pays || disabled.contains("split_weights")) return {};
  passes::WeightSplit split = passes::find_split(model);
  if (are_split || passes::updates_halves(model.entry(entry), split)) return split;
  return {};
}

}  // namespace

CompiledEntry compile_entry(const Model& model, const std::string& entry, const Bindings& bindings,
                            const Target& target, const SessionOptions& options, bool are_split) {
  CompiledEntry compiled{.work = Model::with_tables_of(model), .plan = {}, .split = {}};
  const Graph authored = copy_graph(model.entry(entry), *compiled.work);
  std::set<std::string> disabled = environment().disabled;
  disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  passes::check_pass_names({disabled.begin(), disabled.end()});
  compiled.split = split_of(model, entry, target, options, disabled, are_split);
  passes::add_halves(*compiled.work, compiled.split);
  Graph graph = passes::bind(authored, bindings);
  if (options.optimise)
    graph = optimise(std::move(graph), target, disabled, memory_budget(model, options), compiled.split);
  compiled.plan = passes::make_plan(graph, target, plan_options(disabled));
  compiled.plan.bindings = bindings;
  return compiled;
}

}  // namespace genesis
