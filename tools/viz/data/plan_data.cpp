#include "tools/viz/data/plan_data.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "schema/graph/cost_model.h"
#include "schema/graph/model.h"

namespace genesis::viz {
namespace {

// Autodiff puts its nodes into a scope called "grad".
bool is_gradient(const std::string& node) { return ("." + node + ".").find(".grad.") != std::string::npos; }

bool lies_in(const BufferRef& ref, const ArenaBlock& block) {
  return ref.space == Space::kArena && ref.offset >= block.offset && ref.offset < block.offset + block.bytes;
}

// The content of an arena block, which is the value that its first step writes.
struct Content {
  BlockKind kind = BlockKind::kScratch;
  const TensorType* type = nullptr;
};

Content content_of(const Plan& plan, const ArenaBlock& block) {
  const Step& step = plan.steps[static_cast<size_t>(std::max(block.first_step, 0))];
  for (const PlanPort& port : plan.outputs)
    if (lies_in(port.buffer, block) && block.last_step + 1 == static_cast<int32_t>(plan.steps.size()))
      return {BlockKind::kResult, &port.type};
  for (size_t i = 0; i < step.outputs.size(); ++i)
    if (lies_in(step.outputs[i], block))
      return {is_gradient(step.name) ? BlockKind::kGradient : BlockKind::kActivation, &step.output_types[i]};
  return {};
}

Json blocks_data(const Plan& plan, Tables& tables) {
  std::vector<int32_t> name, first, last, kind, type;
  std::vector<int64_t> offset, bytes;
  for (const ArenaBlock& block : plan.blocks) {
    const Content content = content_of(plan, block);
    name.push_back(tables.path(block.name));
    offset.push_back(block.offset);
    bytes.push_back(block.bytes);
    first.push_back(std::max(block.first_step, 0));
    last.push_back(block.last_step);
    kind.push_back(static_cast<int32_t>(content.kind));
    type.push_back(content.type ? tables.type(*content.type) : -1);
  }
  return {{"name", name}, {"offset", offset}, {"bytes", bytes}, {"first", first},
          {"last", last}, {"kind", kind},     {"type", type}};
}

Json steps_data(const Plan& plan, const Graph& graph) {
  std::unordered_map<std::string, int32_t> nodes;
  for (const Node& node : graph.nodes()) nodes.try_emplace(node.name, static_cast<int32_t>(nodes.size()));
  std::vector<int32_t> node;
  std::vector<int64_t> scratch;
  for (const Step& step : plan.steps) {
    const auto at = nodes.find(step.name);
    node.push_back(at == nodes.end() ? -1 : at->second);
    scratch.push_back(step.scratch_bytes);
  }
  return {{"node", deltas(node)}, {"scratch_bytes", scratch}};
}

std::set<int32_t> touched(const Plan& plan, Space space) {
  std::set<int32_t> found;
  for (const Step& step : plan.steps)
    for (const auto* refs : {&step.inputs, &step.outputs})
      for (const BufferRef& ref : *refs)
        if (ref.space == space) found.insert(ref.index);
  return found;
}

// Adds the bytes of states, constants and inputs, which lie outside the arena.
void add_tables(const Plan& plan, const Model& model, Json& data) {
  data["state_bytes"] = state_bytes(plan, model);
  int64_t constant_bytes = 0, input_bytes = 0;
  for (const int32_t tensor : touched(plan, Space::kConstant))
    constant_bytes += model.tensors()[static_cast<size_t>(tensor)].tensor.bytes();
  for (const PlanPort& port : plan.inputs) input_bytes += port.type.bytes();
  data["constant_bytes"] = constant_bytes;
  data["input_bytes"] = input_bytes;
  data["written_states"] = plan.written_states;
}

// Recognizes recomputed nodes: "layers.0.mlp.swiglu.again", possibly with a number that makes the name unique.
bool runs_again(const std::string& name) {
  size_t end = name.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
  const std::string_view base =
      std::string_view(name).substr(0, end < name.size() && name[end - 1] == '_' ? end - 1 : end);
  return base.ends_with(".again");
}

}  // namespace

BlockKind kind_of(const Plan& plan, const ArenaBlock& block) { return content_of(plan, block).kind; }

Json state_bytes(const Plan& plan, const Model& model) {
  std::set<int32_t> states = touched(plan, Space::kState);
  states.insert(plan.written_states.begin(), plan.written_states.end());
  std::map<std::string, int64_t> by_role;
  for (const int32_t state : states)
    by_role[std::string(name_of(model.state(state).role))] += model.state(state).type.bytes();
  Json rows = Json::array();
  for (const auto& [role, bytes] : by_role) rows.push_back({role, bytes});
  return rows;
}

std::vector<int64_t> live_bytes(const Plan& plan) {
  std::vector<int64_t> live(plan.steps.size() + 1, 0);
  for (const ArenaBlock& block : plan.blocks) {
    live[static_cast<size_t>(std::max(block.first_step, 0))] += block.bytes;
    live[static_cast<size_t>(block.last_step) + 1] -= block.bytes;
  }
  for (size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.pop_back();
  return live;
}

Json plan_data(const Plan& plan, const Graph& graph, Tables& tables) {
  const std::vector<int64_t> live = live_bytes(plan);
  Json data{{"arena_bytes", plan.arena_bytes},
            {"lower_bound_bytes", plan.lower_bound_bytes},
            {"peak_step", std::ranges::max_element(live) - live.begin()},
            {"steps", steps_data(plan, graph)},
            {"blocks", blocks_data(plan, tables)},
            {"live_bytes", live}};
  add_tables(plan, graph.model(), data);
  return data;
}

Json budget_data(const Plan& plan, std::optional<int64_t> budget, Tables& tables) {
  Cost total;
  Json again = Json::array();
  for (const Step& step : plan.steps) {
    if (!runs_again(step.name)) continue;
    const Cost cost = cost_of(step);
    total.bytes += cost.bytes;
    total.flops += cost.flops;
    again.push_back({{"node", tables.path(step.authored)}, {"bytes", cost.bytes}, {"flops", cost.flops}});
  }
  return {{"budget_bytes", budget ? Json(*budget) : Json(nullptr)},
          {"arena_bytes", plan.arena_bytes},
          {"steps", plan.steps.size()},
          {"recomputed", again},
          {"recomputed_flops", total.flops},
          {"recomputed_bytes", total.bytes},
          {"live_bytes", live_bytes(plan)}};
}

}  // namespace genesis::viz
