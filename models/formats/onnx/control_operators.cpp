// Control flow: branches, loops that are unrolled or run by the executor, and scans.
#include <algorithm>
#include <limits>

#include "builder/functions.h"
#include "models/formats/bounded_sizes.h"
#include "models/formats/onnx/import_settings.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/loop.h"

namespace genesis::models::onnx {
namespace {

constexpr int64_t kMaxSteps = 4096;    // the longest loop that is unrolled
constexpr int64_t kMaxRows = 1 << 20;  // the most rows that a loop collects if no limit is given

// Returns the number that an item is, if it is known.
std::optional<int64_t> known_number(Call& call, const ItemPtr& item) {
  std::optional<KnownSizes> sizes;
  if (item->tensor && item->tensor->numel() == 1) return static_cast<int64_t>(item->tensor->to_doubles()[0]);
  sizes = call.environment().known.sizes(value_of(call.environment(), *item));
  if (!sizes || sizes->elements.size() != 1 || !sizes->elements[0].is_constant()) return std::nullopt;
  return sizes->elements[0].value();
}

// Returns the value, and a tensor of one element with this shape if that has one, too: exporters mix numbers with such tensors.
Value with_rank_of(Value value, const Shape& shape) {
  if (value.shape() == shape || !value.shape().is_constant() || !shape.is_constant()) return value;
  return value.type().numel() == 1 && shape.numel() == Dim(1) ? reshape(value, shape) : value;
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
    const Value x = value_of(call.environment(), *a[i]),
                y = with_rank_of(value_of(call.environment(), *b[i]), x.shape());
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

// The values that a loop has before a step.
struct LoopState {
  int64_t step = 0;
  ItemPtr condition;
  std::vector<ItemPtr> carried;
};

// A body that gives back a carried value as it came only reads it.
bool only_reads(const OnnxGraph& body, size_t carried) {
  return carried + 2 < body.inputs.size() && body.outputs[carried + 1] == body.inputs[carried + 2];
}

Value condition_of(Environment& environment, Item& item) {
  return reshape(cast(value_of(environment, item), DType::boolean), {});
}

// Returns a result of a body as the loop carries it on.
Value carried_on(Environment& environment, Item& item, const TensorType& expected, const std::string& name) {
  const Value value = value_of(environment, item);
  if (value.dtype() == expected.dtype)
    if (const Value fitted = with_rank_of(value, expected.shape); fitted.type() == expected) return fitted;
  fail("the value '{}' that it carries is {} before a step and {} behind it: expected one type", name,
       expected.to_string(), value.type().to_string());
}

// Returns the outputs of a loop that it collects, without those that the node does not name.
std::vector<size_t> collected_outputs(Call& call, const OnnxGraph& body, size_t carried) {
  std::vector<size_t> wanted;
  for (size_t i = carried; i + 1 < body.outputs.size(); ++i)
    if (call.wants(i)) wanted.push_back(i);
  return wanted;
}

// The body of a loop as an entry point.
struct LoopGraph {
  Body body;
  std::vector<TensorType> rows;  // the types of the rows that it collects
  std::vector<OnnxElement> elements;
};

// `carried` are the values before the first step of those that the loop changes.
LoopGraph body_of_loop(Call& call, const OnnxGraph& graph, const LoopState& start,
                       const std::vector<Value>& carried, const std::vector<size_t>& collected) {
  Environment& environment = call.environment();
  LoopGraph made;
  const auto inputs = [&](GraphBuilder& body, const auto& inside) {
    const Value step = body.input(graph.inputs[0], DType::i64, {});
    std::vector<ItemPtr> items = {item_of(start.step == 0 ? step : step + start.step),
                                  known_item(Tensor::scalar(true))};
    size_t next = 0;
    for (size_t i = 0; i < start.carried.size(); ++i) {
      items.push_back(start.carried[i]);
      if (only_reads(graph, i)) continue;
      const TensorType& type = carried[next++].type();
      items.back() =
          item_of(body.input(graph.inputs[i + 2], type.dtype, type.shape), start.carried[i]->element);
    }
    for (size_t i = 0; i < start.carried.size(); ++i)  // these become inputs behind the carried values
      if (only_reads(graph, i)) items[i + 2] = inside(start.carried[i]);
    return items;
  };
  const auto outputs = [&](GraphBuilder& body, const std::vector<ItemPtr>& results) {
    body.output("condition", condition_of(environment, *results[0]));
    size_t next = 0;
    for (size_t i = 0; i < start.carried.size(); ++i) {
      if (only_reads(graph, i)) continue;
      const TensorType& type = carried[next].type();
      body.output(fmt::format("carried.{}", next++),
                  carried_on(environment, *results[i + 1], type, graph.inputs[i + 2]));
    }
    for (const size_t i : collected) {
      const Value row = value_of(environment, *results[i + 1]);
      body.output(fmt::format("row.{}", made.rows.size()), row);
      made.rows.push_back(row.type()), made.elements.push_back(results[i + 1]->element);
    }
    for (const ValueInfo& value : body.graph().values())
      for (const Dim& size : value.type.shape)
        if (!bounded_symbol(size).empty()) fail("a size in it depends on data: {}", value.type.to_string());
  };
  made.body = environment.make_body(graph, inputs, outputs);
  return made;
}

// Returns the most steps that are left, i64[].
Value steps_left(Call& call, int64_t done) {
  const auto limit = call.has(0) ? call.try_sizes(0) : std::nullopt;
  if (!call.has(0)) return call.g().full({}, std::numeric_limits<int64_t>::max(), DType::i64);
  if (limit && limit->elements.size() == 1 && limit->elements[0].is_constant())
    return call.g().full({}, limit->elements[0].value() - done, DType::i64);
  return reshape(cast(call.tensor(0), DType::i64), {}) - done;
}

// Returns how many rows what a loop collects gets: the most steps, as a limit that was given or the number of the node says.
int64_t most_rows(Call& call, size_t collected) {
  const std::string name = name_of_loop(call.node());
  const auto given = call.environment().most_steps.find(name);
  std::optional<int64_t> number;
  if (call.has(0) && call.try_sizes(0)) number = call.integer(0);
  if (given != call.environment().most_steps.end())
    return number ? std::min(*number, given->second) : given->second;
  if (number && *number <= kMaxRows) return *number;
  fail(
      "it collects '{}' step by step, and no number of at most {} says how many steps it takes: "
      "give a limit, as in --set {}.steps=1000",
      call.node().outputs[collected], kMaxRows, name);
}

// Returns what a loop collects before its first step, rows of zeros.
std::vector<Value> empty_rows(Call& call, const LoopGraph& made, const std::vector<size_t>& collected) {
  std::vector<Value> rows;
  for (size_t i = 0; i < collected.size(); ++i) {
    Shape shape = {most_rows(call, collected[i])};
    for (const Dim& size : made.rows[i].shape) shape.push_back(size);
    rows.push_back(call.g().full(shape, 0, made.rows[i].dtype));
  }
  return rows;
}

// The remaining steps of a loop whose end depends on data: the executor runs its body as a subgraph.
Results looped_by_data(Call& call, const LoopState& start) {
  const OnnxGraph& graph = call.body("body");
  Environment& environment = call.environment();
  const std::vector<size_t> collected = collected_outputs(call, graph, start.carried.size());
  if (graph.inputs.size() != start.carried.size() + 2)
    fail("its body has {} inputs: expected {}", graph.inputs.size(), start.carried.size() + 2);
  std::vector<Value> carried;
  for (size_t i = 0; i < start.carried.size(); ++i)
    if (!only_reads(graph, i)) carried.push_back(value_of(environment, *start.carried[i]));
  if (carried.empty() && collected.empty()) fail("it changes no value");
  const LoopGraph made = body_of_loop(call, graph, start, carried, collected);
  const std::vector<Value> last =
      loop(made.body.entry, {.condition = condition_of(environment, *start.condition),
                             .most_steps = steps_left(call, start.step),
                             .carried = carried,
                             .collected = empty_rows(call, made, collected),
                             .read = made.body.read});
  Results results(call.node().outputs.size());
  size_t next = 0;
  for (size_t i = 0; i < start.carried.size(); ++i) {
    const ItemPtr item =
        only_reads(graph, i) ? start.carried[i] : item_of(last[next++], start.carried[i]->element);
    if (i < results.size()) results[i] = item;
  }
  if (collected.empty()) return results;
  const std::vector<Value> rows =
      with_symbol({last.begin() + static_cast<std::ptrdiff_t>(next), last.end() - 1});
  for (size_t i = 0; i < rows.size(); ++i) results[collected[i]] = item_of(rows[i], made.elements[i]);
  return results;
}

// Values of the inputs that decide the end may make the number of steps known.
Results looped_by_data(Call& call, const LoopState& start, const ItemPtr& deciding) {
  try {
    return looped_by_data(call, start);
  } catch (const Error& problem) {
    throw NeedsValue(
        fmt::format("its condition depends on data, and no loop can be made of its body: {}; expected a "
                    "known number of steps",
                    problem.message()),
        call.environment().known.sources(value_of(call.environment(), *deciding)));
  }
}

// Returns how many steps a loop takes at most; nothing if that depends on data.
std::optional<int64_t> step_limit(Call& call) {
  if (!call.has(0)) return kMaxSteps;
  if (!call.try_sizes(0)) return std::nullopt;
  return std::min(call.integer(0), kMaxSteps + 1);
}

// A loop is unrolled as long as its condition is known. What it collects has rows of one kind, so that the executor runs all steps of such a
// loop if it runs one.
Results looped(Call& call) {
  const OnnxGraph& body = call.body("body");
  const size_t carried_count = call.count() > 2 ? call.count() - 2 : 0;
  LoopState now{.condition = call.has(1) ? call.item(1) : known_item(Tensor::scalar(true)), .carried = {}};
  for (size_t i = 0; i < carried_count; ++i) now.carried.push_back(call.item(i + 2));
  if (body.outputs.size() < carried_count + 1) fail("its body has {} results", body.outputs.size());
  const LoopState start = now;
  const bool collects = !collected_outputs(call, body, carried_count).empty();
  if (const std::string name = name_of_loop(call.node());
      !collects && call.environment().most_steps.contains(name))
    fail("a limit of its steps is given, and it collects nothing: leave out --set {}.steps", name);
  const auto limit = step_limit(call);
  if (!limit) return looped_by_data(call, start, call.item(0));
  std::vector<std::vector<ItemPtr>> collected(body.outputs.size() - 1 - carried_count);
  for (; now.step < *limit; ++now.step) {
    const auto goes_on = known_number(call, now.condition);
    if (!goes_on) return looped_by_data(call, collects ? start : now, now.condition);
    if (*goes_on == 0) break;
    if (now.step == kMaxSteps) fail("it takes more than {} steps", kMaxSteps);
    std::vector<ItemPtr> inputs = {known_item(Tensor::scalar(now.step)), now.condition};
    inputs.insert(inputs.end(), now.carried.begin(), now.carried.end());
    const Results results = call.environment().run_body(body, inputs);
    now.condition = results[0];
    for (size_t i = 0; i < carried_count; ++i) now.carried[i] = results[i + 1];
    for (size_t i = 0; i < collected.size(); ++i) collected[i].push_back(results[i + 1 + carried_count]);
  }
  Results results = now.carried;
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
