// Control flow: branches, loops that are unrolled, and scans.
#include <algorithm>

#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::onnx {
namespace {

constexpr int64_t kMaxSteps = 4096;  // the longest loop that is unrolled

// Returns the number that an item is, if it is known.
std::optional<int64_t> known_number(Call& call, const ItemPtr& item) {
  std::optional<KnownSizes> sizes;
  if (item->tensor && item->tensor->numel() == 1) return static_cast<int64_t>(item->tensor->to_doubles()[0]);
  sizes = call.environment().known.sizes(value_of(call.environment(), *item));
  if (!sizes || sizes->elements.size() != 1 || !sizes->elements[0].is_constant()) return std::nullopt;
  return sizes->elements[0].value();
}

// Both branches are computed if the condition depends on data; they must give tensors of equal types.
Results chosen_branch(Call& call) {
  const OnnxGraph &yes = call.body("then_branch"), &no = call.body("else_branch");
  if (const auto condition = known_number(call, call.item(0)))
    return call.environment().run_body(*condition != 0 ? yes : no, {});
  const Value condition = reshape(call.tensor(0), {});
  const auto branch = [&](const OnnxGraph& graph) {
    try {
      return call.environment().run_body(graph, {});
    } catch (const Error& problem) {  // the branch may be impossible where the condition chooses the other
      throw NeedsValue(
          fmt::format("a condition that depends on data chooses between branches, one of which fails: {}",
                      problem.message()),
          call.environment().known.sources(condition));
    }
  };
  const Results a = branch(yes), b = branch(no);
  if (a.size() != b.size()) fail("its branches have {} and {} results", a.size(), b.size());
  Results results;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i] || !b[i] || a[i]->kind != Item::Kind::kTensor || b[i]->kind != Item::Kind::kTensor)
      throw NeedsValue("a condition that depends on data chooses between values that are no tensors",
                       call.environment().known.sources(condition));
    const Value x = value_of(call.environment(), *a[i]), y = value_of(call.environment(), *b[i]);
    if (x.type() != y.type() || a[i]->element != b[i]->element)
      throw NeedsValue(
          fmt::format("a condition that depends on data chooses between {} and {}: expected one type",
                      x.type().to_string(), y.type().to_string()),
          call.environment().known.sources(condition));
    results.push_back(item_of(where(condition, x, y), a[i]->element));
  }
  return results;
}

ItemPtr known_item(const Tensor& tensor) {
  auto item = std::make_shared<Item>();
  item->tensor = tensor;
  item->element = onnx_element_of(tensor.dtype());
  return item;
}

ItemPtr stacked(Call& call, const std::vector<ItemPtr>& items, int64_t axis, bool reverse) {
  if (items.empty()) fail("a loop without a step has no type for what it collects");
  std::vector<Value> values;
  for (const ItemPtr& item : items) values.push_back(value_of(call.environment(), *item));
  if (reverse) std::ranges::reverse(values);
  const OnnxElement element = items[0]->element;
  return item_of(stack(values, normalize_axis(axis, values[0].rank() + 1)), element);
}

// Returns how many steps a loop takes at most.
int64_t step_limit(Call& call) {
  if (!call.has(0)) return kMaxSteps;
  const int64_t limit = call.integer(0);
  return std::min(limit, kMaxSteps + 1);
}

// A loop whose condition is known at each step.
Results looped(Call& call) {
  const OnnxGraph& body = call.body("body");
  const int64_t limit = step_limit(call);
  const size_t carried_count = call.count() > 2 ? call.count() - 2 : 0;
  ItemPtr condition = call.has(1) ? call.item(1) : known_item(Tensor::scalar(true));
  std::vector<ItemPtr> carried;
  for (size_t i = 0; i < carried_count; ++i) carried.push_back(call.item(i + 2));
  if (body.outputs.size() < carried_count + 1) fail("its body has {} results", body.outputs.size());
  std::vector<std::vector<ItemPtr>> collected(body.outputs.size() - 1 - carried_count);
  for (int64_t step = 0; step < limit; ++step) {
    const auto goes_on = known_number(call, condition);
    if (!goes_on)
      throw NeedsValue("its condition depends on data: expected a known number of steps",
                       call.environment().known.sources(value_of(call.environment(), *condition)));
    if (*goes_on == 0) break;
    if (step == kMaxSteps) fail("it takes more than {} steps", kMaxSteps);
    std::vector<ItemPtr> inputs = {known_item(Tensor::scalar(step)), condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const Results results = call.environment().run_body(body, inputs);
    condition = results[0];
    for (size_t i = 0; i < carried_count; ++i) carried[i] = results[i + 1];
    for (size_t i = 0; i < collected.size(); ++i) collected[i].push_back(results[i + 1 + carried_count]);
  }
  Results results = carried;
  for (size_t i = 0; i < collected.size(); ++i)
    results.push_back(call.wants(i + carried_count) ? stacked(call, collected[i], 0, false) : nullptr);
  return results;
}

int64_t at_or(const std::vector<int64_t>& list, size_t i, int64_t otherwise) {
  return i < list.size() ? list[i] : otherwise;
}

// One run of a scan over the axes of its last inputs.
Results scanned_once(Call& call, const std::vector<ItemPtr>& states, const std::vector<Value>& scanned) {
  const OnnxGraph& body = call.body("body");
  const auto axes = call.list("scan_input_axes"), directions = call.list("scan_input_directions"),
             out_axes = call.list("scan_output_axes"), out_directions = call.list("scan_output_directions");
  if (scanned.empty() || body.outputs.size() < states.size()) fail("it scans nothing");
  const int64_t steps = scanned[0].dim(at_or(axes, 0, 0)).value();
  if (steps > kMaxSteps) fail("it takes {} steps: expected at most {}", steps, kMaxSteps);
  std::vector<ItemPtr> carried = states;
  std::vector<std::vector<ItemPtr>> collected(body.outputs.size() - states.size());
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<ItemPtr> inputs = carried;
    for (size_t i = 0; i < scanned.size(); ++i) {
      const bool backward = at_or(directions, i, 0) != 0;
      inputs.push_back(item_of(select(scanned[i], at_or(axes, i, 0), backward ? steps - 1 - step : step)));
    }
    const Results results = call.environment().run_body(body, inputs);
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = results[i];
    for (size_t i = 0; i < collected.size(); ++i) collected[i].push_back(results[i + carried.size()]);
  }
  Results results = carried;
  for (size_t i = 0; i < collected.size(); ++i)
    results.push_back(stacked(call, collected[i], at_or(out_axes, i, 0), at_or(out_directions, i, 0) != 0));
  return results;
}

Results scanned(Call& call) {
  const auto count = static_cast<size_t>(call.attribute("num_scan_inputs", 1));
  const size_t first = call.version() < 9 ? 1 : 0;  // version 8 has lengths before, and a batch axis
  if (count + first > call.count()) fail("it scans {} of {} inputs", count, call.count());
  std::vector<ItemPtr> states;
  for (size_t i = first; i < call.count() - count; ++i) states.push_back(call.item(i));
  const std::vector<Value> all = call.tensors(call.count() - count);
  if (first == 0) return scanned_once(call, states, all);
  if (call.has(0)) fail("lengths of sequences are not read");
  call.accept_any("directions");
  const int64_t batches = all[0].dim(0).value();
  std::vector<std::vector<Value>> by_output;
  for (int64_t batch = 0; batch < batches; ++batch) {
    std::vector<ItemPtr> own;
    for (const ItemPtr& state : states)
      own.push_back(item_of(select(value_of(call.environment(), *state), 0, batch)));
    std::vector<Value> rows;
    for (const Value& x : all) rows.push_back(select(x, 0, batch));
    const Results results = scanned_once(call, own, rows);
    by_output.resize(results.size());
    for (size_t i = 0; i < results.size(); ++i)
      by_output[i].push_back(value_of(call.environment(), *results[i]));
  }
  Results results;
  for (const auto& values : by_output) results.push_back(item_of(stack(values, 0)));
  return results;
}

}  // namespace

const Operators& control_operators() {
  static const Operators kOperators = {
      {"If", chosen_branch, 1, Takes::kAnyAlone},
      {"Loop", looped, 1, Takes::kAnyAlone},
      {"Scan", scanned},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
