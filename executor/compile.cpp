#include "executor/compile.h"

#include "executor/environment.h"
#include "passes/bind.h"
#include "passes/make_plan.h"
#include "passes/pipelines.h"

namespace genesis {
namespace {

passes::PlanOptions plan_options(const std::set<std::string>& disabled) {
  const auto on = [&](std::string_view name) { return !disabled.contains(std::string(name)); };
  return {.in_place = on(passes::kInPlaceSwitch),
          .schedule = on(passes::kOrderSwitch),
          .reuse = on(passes::kReuseSwitch)};
}

Graph optimise(Graph bound, const Target& target, const std::set<std::string>& disabled) {
  passes::PassContext context;
  context.target = &target;
  passes::PipelineOptions pipeline;
  pipeline.disabled.insert(disabled.begin(), disabled.end());
  if (!environment().dump_folder.empty())
    pipeline.on_change = passes::dump_to_folder(environment().dump_folder);
  return passes::run_passes(bound, passes::pipeline_for(bound), context, pipeline);
}

}  // namespace

CompiledEntry compile_entry(const Model& model, const std::string& entry, const Bindings& bindings,
                            const Target& target, const SessionOptions& options) {
  CompiledEntry compiled{.work = Model::with_tables_of(model), .plan = {}};
  const Graph authored = copy_graph(model.entry(entry), *compiled.work);
  std::set<std::string> disabled = environment().disabled;
  disabled.insert(options.disabled_passes.begin(), options.disabled_passes.end());
  passes::check_pass_names({disabled.begin(), disabled.end()});
  Graph graph = passes::bind(authored, bindings);
  if (options.optimise) graph = optimise(std::move(graph), target, disabled);
  compiled.plan = passes::make_plan(graph, target, plan_options(disabled));
  compiled.plan.bindings = bindings;
  return compiled;
}

}  // namespace genesis
