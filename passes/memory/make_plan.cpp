#include "passes/memory/make_plan.h"

#include <algorithm>
#include <limits>
#include <set>

#include "passes/core/match.h"
#include "passes/memory/aliasing.h"
#include "passes/memory/node_order.h"
#include "passes/memory/offsets/offset_planner.h"
#include "passes/memory/offsets/overlap_check.h"
#include "schema/core/type_limits.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ops/tensor/loop.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

int64_t align_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

constexpr uint32_t kVariations = 12;

class PlanMaker {
 public:
  PlanMaker(const Graph& graph, const Target& target, const PlanOptions& options,
            std::span<const Plan> bodies = {}, uint32_t variation = 0, int64_t search_budget = 0)
      : graph_(graph),
        target_(target),
        options_(options),
        bodies_(bodies),
        variation_(variation),
        search_budget_(search_budget) {}

  Plan make() {
    plan_.entry = graph_.name();
    ask_target_about_nodes();
    choose_order();
    for (size_t i = 0; i < order_.size(); ++i) add_step(order_[i], static_cast<int>(i));
    add_state_updates();
    add_ports();
    assign_offsets();
    return std::move(plan_);
  }

  std::vector<NodeId> order() {
    ask_target_about_nodes();
    choose_order();
    return std::move(order_);
  }

 private:
  void ask_target_about_nodes() {
    for (const Node& node : graph_.nodes()) {
      const std::vector<TensorType> input_types = graph_.input_types(node),
                                    output_types = graph_.output_types(node);
      const bool may_be_view = node.op->view_offset && node.op->view_offset(node.attributes, input_types);
      scratch_.push_back(
          may_be_view || !has_elements(node)
              ? 0
              : scratch_bytes(target_.query(*node.op, node.attributes, input_types, output_types),
                              node.authored_name()));
    }
  }

  int64_t scratch_bytes(const KernelQuery& query, const std::string& name) const {
    if (const auto why_not = target_.can_run ? target_.can_run(query) : std::nullopt)
      fail("node '{}' cannot run on {}: {}", name, target_.device, *why_not);
    if (is<ops::Loop>(query.op)) return checked_scratch(loop_bytes(query));
    if (!target_.scratch_bytes) return 0;
    return with_context([&] { return checked_scratch(target_.scratch_bytes(query)); },
                        [&] { return "while sizing the scratch memory of node '" + name + "'"; });
  }

  int64_t loop_bytes(const KernelQuery& query) const {
    const auto loop = from_attributes<ops::Loop>(query.attributes);
    const auto body = std::ranges::find(bodies_, loop.entry, &Plan::entry);
    return body == bodies_.end() ? 0 : loop_memory(*body, loop.carried).bytes;
  }

  static int64_t checked_scratch(int64_t bytes) {
    if (bytes < 0 || bytes > kMaxTensorBytes)
      fail("{} bytes are more than the limit of {}: use smaller sizes", bytes, kMaxTensorBytes);
    return bytes;
  }

  // The result of a send is empty: its input decides.
  bool has_elements(const Node& node) const {
    const std::vector<ValueId>& values = is<ops::Send>(node) ? node.inputs : node.outputs;
    return std::ranges::any_of(values, [&](ValueId value) { return graph_.type(value).bytes() > 0; });
  }

  // Takes the candidate order with the lowest peak; the graph's own order wins ties.
  void choose_order() {
    std::vector<std::vector<NodeId>> candidates = {graph_order(graph_)};
    if (options_.schedule) {
      candidates.push_back(late_order(graph_));
      if (!graph_.updates().empty()) candidates.push_back(eager_order(graph_));
      candidates.push_back(greedy_order(graph_, variation_));
    }
    int64_t lowest = std::numeric_limits<int64_t>::max();
    for (const std::vector<NodeId>& candidate : candidates) {
      GENESIS_ASSERT(candidate.size() == graph_.nodes().size());
      Aliasing aliasing = find_aliasing(graph_, candidate, options_.in_place);
      const int64_t peak = peak_bytes(candidate, aliasing);
      if (peak >= lowest) continue;
      lowest = peak;
      order_ = candidate;
      aliasing_ = std::move(aliasing);
    }
  }

  int64_t peak_bytes(const std::vector<NodeId>& order, const Aliasing& aliasing) const {
    std::vector<int64_t> change(order.size() + 2, 0);
    for (const Root& root : aliasing.roots) {
      if (root.space != Space::kArena) continue;
      change[static_cast<size_t>(root.first)] += align_up(root.bytes, target_.alignment);
      change[static_cast<size_t>(root.last) + 1] -= align_up(root.bytes, target_.alignment);
    }
    int64_t live = 0, peak = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      live += change[i];
      peak =
          std::max(peak, live + align_up(scratch_[static_cast<size_t>(order[i].index)], target_.alignment));
    }
    return std::max(peak, live + change[order.size()]);
  }

  // Adds no step for a node whose outputs have no elements: it has nothing to compute or to write into a state.
  void add_step(NodeId id, int position) {
    const Node& node = graph_.node(id);
    if (is_view(node) || !has_elements(node)) return;
    Step step{
        .op = node.op, .attributes = node.attributes, .name = node.name, .authored = node.authored_name()};
    for (ValueId input : node.inputs) {
      step.input_types.push_back(graph_.type(input));
      step.inputs.push_back(reference(input));
    }
    for (ValueId output : node.outputs) {
      step.output_types.push_back(graph_.type(output));
      step.outputs.push_back(reference(output));
    }
    step.scratch_bytes = scratch_[static_cast<size_t>(id.index)];
    step_positions_.push_back(position);
    plan_.steps.push_back(std::move(step));
  }

  bool is_view(const Node& node) const {
    if (aliasing_.wholes.contains(node.outputs[0])) return true;
    return !node.inputs.empty() && location(node.outputs[0]).root == location(node.inputs[0]).root &&
           node.op->view_offset != nullptr && node.op->view_offset(node.attributes, graph_.input_types(node));
  }

  const Location& location(ValueId id) const { return aliasing_.locations[static_cast<size_t>(id.index)]; }

  // References to the arena hold the root's number in `index` until assign_offsets() knows its offset.
  BufferRef reference(ValueId id) const {
    const Location& at = location(id);
    const Root& root = aliasing_.roots[static_cast<size_t>(at.root)];
    return {root.space, root.space == Space::kArena ? at.root : root.index, at.offset,
            graph_.type(id).bytes()};
  }

  void add_ports() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const ValueInfo& input = graph_.value(graph_.inputs()[i]);
      plan_.inputs.push_back(
          {input.name, input.type, {Space::kInput, static_cast<int32_t>(i), 0, input.type.bytes()}});
    }
    for (const NamedValue& output : graph_.outputs())
      plan_.outputs.push_back({output.name, graph_.type(output.value), output_reference(output.value)});
  }

  // Moves an output out of a state that a copy overwrites at the end.
  BufferRef output_reference(ValueId value) {
    const BufferRef at = reference(value);
    return at.space == Space::kState && copied_states_.contains(at.index) ? move_to_arena(value, at) : at;
  }

  void add_state_updates() {
    for (const StateUpdate& update : graph_.updates()) {
      const BufferRef source = reference(update.value);
      const BufferRef home{Space::kState, update.state, 0, source.bytes};
      plan_.written_states.push_back(update.state);
      if (source == home) continue;
      copied_states_.insert(update.state);
      plan_.state_copies.push_back(
          {update.state, source.space == Space::kState ? move_to_arena(update.value, source) : source});
    }
    std::ranges::sort(plan_.written_states);
  }

  // Copies a value from a state to the arena after all steps, because that state may be overwritten then.
  BufferRef move_to_arena(ValueId value, const BufferRef& source) {
    const TensorType& type = graph_.type(value);
    const int position = static_cast<int>(order_.size());
    aliasing_.roots.push_back({.bytes = source.bytes, .first = position, .last = position, .value = value});
    const BufferRef copy{Space::kArena, static_cast<int32_t>(aliasing_.roots.size()) - 1, 0, source.bytes};
    const std::string& name = graph_.value(value).name;
    Step step{.op = &op_def<ops::Reshape>(),
              .attributes = to_attributes(ops::Reshape{type.shape}),
              .name = name + ".copy",
              .authored = name};
    step.input_types = step.output_types = {type};
    step.inputs = {source};
    step.outputs = {copy};
    step.scratch_bytes =
        scratch_bytes(target_.query(*step.op, step.attributes, step.input_types, step.output_types), name);
    step_positions_.push_back(position);
    plan_.steps.push_back(std::move(step));
    return copy;
  }

  void assign_offsets() {
    std::vector<int32_t> arena_roots;
    std::vector<PlanBuffer> buffers;
    const int end = static_cast<int>(order_.size()) + 1;
    const auto add = [&](int first, int last, int64_t bytes) {
      const PlanBuffer whole_run{0, end, align_up(bytes, target_.alignment)};
      buffers.push_back(options_.reuse ? PlanBuffer{first, last + 1, whole_run.size} : whole_run);
    };
    for (size_t i = 0; i < aliasing_.roots.size(); ++i) {
      const Root& root = aliasing_.roots[i];
      if (root.space != Space::kArena) continue;
      arena_roots.push_back(static_cast<int32_t>(i));
      add(root.first, root.last, root.bytes);
    }
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      add(step_positions_[i], step_positions_[i], plan_.steps[i].scratch_bytes);
    const OffsetPlan offsets =
        plan_offsets(buffers, {.alignment = target_.alignment, .search_budget = search_budget_});
    GENESIS_ASSERT(!find_overlap(buffers, offsets.offsets));
    plan_.arena_bytes = offsets.height;
    plan_.lower_bound_bytes = offsets.lower_bound;
    std::vector<int64_t> root_offsets(aliasing_.roots.size(), 0);
    for (size_t i = 0; i < arena_roots.size(); ++i)
      root_offsets[static_cast<size_t>(arena_roots[i])] = offsets.offsets[i];
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      plan_.steps[i].scratch_offset = offsets.offsets[arena_roots.size() + i];
    report_blocks(buffers, offsets.offsets, arena_roots);
    place_references(root_offsets);
    report_peak(buffers, arena_roots);
  }

  void place_references(const std::vector<int64_t>& root_offsets) {
    const auto place = [&](BufferRef& ref) {
      if (ref.space != Space::kArena) return;
      ref.offset += root_offsets[static_cast<size_t>(ref.index)];
      ref.index = 0;
    };
    for (Step& step : plan_.steps) {
      for (BufferRef& ref : step.inputs) place(ref);
      for (BufferRef& ref : step.outputs) place(ref);
    }
    for (PlanPort& port : plan_.outputs) place(port.buffer);
    for (StateCopy& copy : plan_.state_copies) place(copy.source);
  }

  // Lifetimes are positions in the order, which includes views; readers of the plan count steps.
  void report_blocks(const std::vector<PlanBuffer>& buffers, const std::vector<int64_t>& offsets,
                     const std::vector<int32_t>& arena_roots) {
    const std::vector<int32_t> written = first_writers();
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].size == 0) continue;
      const bool is_root = i < arena_roots.size();
      const auto step = static_cast<int32_t>(i - arena_roots.size());  // if the buffer is scratch memory
      plan_.blocks.push_back(
          {.name = name_of_buffer(i, arena_roots),
           .offset = offsets[i],
           .bytes = buffers[i].size,
           .first_step = is_root ? written[static_cast<size_t>(arena_roots[i])] : step,
           .last_step = is_root ? last_step_before(static_cast<int>(buffers[i].upper)) : step});
    }
  }

  // Returns the step that first writes each root. Before offsets are known, an arena reference holds its root.
  std::vector<int32_t> first_writers() const {
    std::vector<int32_t> writers(aliasing_.roots.size(), -1);
    for (size_t i = plan_.steps.size(); i-- > 0;)
      for (const BufferRef& ref : plan_.steps[i].outputs)
        if (ref.space == Space::kArena) writers[static_cast<size_t>(ref.index)] = static_cast<int32_t>(i);
    return writers;
  }

  int32_t last_step_before(int position) const {
    const auto end = std::ranges::lower_bound(step_positions_, position);
    return static_cast<int32_t>(end - step_positions_.begin()) - 1;
  }

  // Reports the position with the most live bytes and the buffers that are alive there.
  void report_peak(const std::vector<PlanBuffer>& buffers, const std::vector<int32_t>& arena_roots) {
    std::vector<int64_t> change(order_.size() + 3, 0);
    for (const PlanBuffer& buffer : buffers) {
      change[static_cast<size_t>(buffer.lower)] += buffer.size;
      change[static_cast<size_t>(buffer.upper)] -= buffer.size;
    }
    int64_t live = 0, most = -1;
    int64_t peak = 0;
    for (size_t i = 0; i < change.size(); ++i) {
      live += change[i];
      if (live > most) most = live, peak = static_cast<int64_t>(i);
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].lower > peak || buffers[i].upper <= peak || buffers[i].size == 0) continue;
      plan_.peak.push_back({name_of_buffer(i, arena_roots), buffers[i].size});
    }
    std::ranges::stable_sort(plan_.peak,
                             [](const PeakTensor& a, const PeakTensor& b) { return a.bytes > b.bytes; });
  }

  // Buffers are the roots of the arena, followed by each step's scratch memory.
  std::string name_of_buffer(size_t index, const std::vector<int32_t>& arena_roots) const {
    if (index < arena_roots.size()) return name_of_root(arena_roots[index]);
    return plan_.steps[index - arena_roots.size()].authored + " (scratch)";
  }

  std::string name_of_root(int32_t index) const {
    const ValueInfo& info = graph_.value(aliasing_.roots[static_cast<size_t>(index)].value);
    return info.kind == ValueKind::kNode ? graph_.node(info.producer).authored_name() : info.name;
  }

  const Graph& graph_;
  const Target& target_;
  const PlanOptions options_;
  const std::span<const Plan> bodies_;
  const uint32_t variation_;
  const int64_t search_budget_;
  Plan plan_;
  std::vector<int64_t> scratch_;  // by node id
  std::vector<NodeId> order_;
  std::set<int32_t> copied_states_;  // states that plan_.state_copies writes
  std::vector<int> step_positions_;  // by step: its position in the order
  Aliasing aliasing_;
};

// Returns whether the arena exceeds the bytes that must be alive at once by at most 1/2000.
bool is_close(const Plan& plan) {
  return plan.arena_bytes - plan.lower_bound_bytes <= plan.lower_bound_bytes / 2000;
}

// An order with a low peak may still leave gaps that another equally good order does not. Trying orders is cheap and searching
// offsets is not, so the search only runs for the best order, and only if the remaining gaps are worth it.
Plan best_plan(const Graph& graph, const Target& target, const PlanOptions& options,
               std::span<const Plan> bodies) {
  Plan best = PlanMaker(graph, target, options, bodies).make();
  uint32_t chosen = 0;
  for (uint32_t variation = 1; variation <= kVariations && options.schedule; ++variation) {
    if (is_close(best)) return best;
    Plan other = PlanMaker(graph, target, options, bodies, variation).make();
    if (other.arena_bytes >= best.arena_bytes) continue;
    best = std::move(other);
    chosen = variation;
  }
  if (is_close(best) || !options.reuse) return best;
  Plan searched = PlanMaker(graph, target, options, bodies, chosen, kQuickSearch).make();
  return searched.arena_bytes < best.arena_bytes ? searched : best;
}

}  // namespace

std::vector<NodeId> planned_order(const Graph& graph, const Target& target, const PlanOptions& options) {
  return PlanMaker(graph, target, options).order();
}

Plan make_plan(const Graph& graph, const Target& target, const PlanOptions& options,
               std::vector<Plan> bodies) {
  Plan plan = best_plan(graph, target, options, bodies);
  plan.bodies = std::move(bodies);
  return plan;
}

}  // namespace genesis::passes
