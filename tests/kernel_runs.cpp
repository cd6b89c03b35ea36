#include "tests/kernel_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "executor/compile.h"
#include "executor/runtime/device.h"
#include "executor/runtime/step_call.h"
#include "executor/switches.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/elementwise/fused_program.h"

namespace genesis::testing {
namespace {

// Returns the row of the op's table that the device chose. A choice may name an implementation inside the row instead; the rows
// before it have all declined.
std::string row_of(const std::vector<std::string>& rows, const KernelChoice& choice) {
  const auto declined = std::ranges::count_if(choice.declined, [&](const KernelChoice::Declined& why) {
    return std::ranges::find(rows, why.name) != rows.end();
  });
  return static_cast<size_t>(declined) < rows.size() ? rows[static_cast<size_t>(declined)] : "";
}

// Returns make(); empty if no implementation is left for a node and `may_be_none`.
std::optional<Plan> unless_none_is_left(bool may_be_none, const std::function<Plan()>& make) {
  try {
    return make();
  } catch (const Error& error) {
    if (!may_be_none || error.message().find("no kernel runs op") == std::string::npos) throw;
    return std::nullopt;
  }
}

std::string in_words(const std::set<std::string>& disabled) {
  return disabled.empty() ? "" : fmt::format(", without {}", fmt::join(disabled, ", "));
}

// One run of run_by_every_implementation(). Returns the implementations that ran; empty if none is left for a node.
std::vector<std::string> run_without(const std::set<std::string>& disabled,
                                     const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                                     SessionOptions options, const CheckResults& check) {
  KernelRuns& runs = KernelRuns::on(options.device);
  options.disabled.insert(disabled.begin(), disabled.end());
  Session session(model, options);
  const std::optional<Plan> plan =
      unless_none_is_left(!disabled.empty(), [&] { return session.plan("main", inputs); });
  if (!plan) return {};
  const NamedTensors results = session.run("main", inputs);
  static std::mutex mutex;  // ranks of a test are threads
  const std::lock_guard lock(mutex);
  check(results, in_words(disabled));
  std::vector<std::string> names = runs.find(*plan, options.disabled);
  runs.add(names, *plan);
  return names;
}

// The same without a device: it only makes the plan.
std::vector<std::string> plan_without(const std::set<std::string>& disabled, const Model& model,
                                      const NamedTensors& inputs, SessionOptions options) {
  KernelRuns& runs = KernelRuns::on(options.device);
  options.disabled.insert(disabled.begin(), disabled.end());
  const std::optional<Plan> plan = unless_none_is_left(!disabled.empty(), [&] {
    return compile_entry(model, "main", bind_inputs(model.entry("main"), inputs), runs.target(), options)
        .plan;
  });
  if (!plan) return {};
  std::vector<std::string> names = runs.find(*plan, options.disabled);
  runs.add(names, *plan);
  return names;
}

// Calls once({}), which returns the implementations of its nodes, and again without one after the other of them, as long as others
// are left.
void in_turn(const KernelRuns& runs,
             const std::function<std::vector<std::string>(const std::set<std::string>& disabled)>& once) {
  std::set<std::string> disabled, seen;
  std::vector<std::string> chosen = once(disabled);
  while (true) {
    const auto next =
        std::ranges::find_if(chosen, [&](const std::string& name) { return !seen.contains(name); });
    if (next == chosen.end()) return;
    seen.insert(*next);
    if (!runs.can_be_switched_off(*next)) continue;
    std::set<std::string> without = disabled;
    without.insert("kernel:" + *next);
    std::vector<std::string> others = once(without);
    if (others.empty()) continue;
    disabled = std::move(without);
    chosen = std::move(others);
  }
}

}  // namespace

KernelRuns::KernelRuns(Target target) : target_(std::move(target)) {
  for (std::string& name : target_.kernel_names()) rows_[name.substr(0, name.find('.'))].push_back(name);
}

KernelRuns& KernelRuns::on(const std::string& device) {
  static std::map<std::string, KernelRuns> all;
  return all.try_emplace(device, target_of(device)).first->second;
}

std::vector<std::string> KernelRuns::find(const Plan& plan, const std::set<std::string>& disabled) {
  const KernelNames kernels = parse_switches_and_environment(disabled, target_).runner.disabled_kernels;
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const Step& step : plan.steps) {
    const KernelChoice choice = target_.choose(query_of(step, kernels));
    if (const auto rows = rows_.find(step.op->name()); rows != rows_.end()) add(row_of(rows->second, choice));
    add(choice.name);
    for (const KernelChoice::Declined& why : choice.declined) reasons_[why.name].insert(why.reason);
  }
  return names;
}

void KernelRuns::add(const std::vector<std::string>& names, const Plan& plan) {
  names_.insert(names.begin(), names.end());
  for (const Step& step : plan.steps) {
    ops_.emplace(step.op->name());
    if (!is<ops::Fused>(*step.op)) continue;
    for (const FusedOp& part :
         parse_fused_program(from_attributes<ops::Fused>(step.attributes), step.input_types).ops)
      ops_.emplace(part.op->name());
  }
}

bool KernelRuns::can_be_switched_off(const std::string& name) const {
  const auto rows = rows_.find(name.substr(0, name.find('.')));
  if (rows == rows_.end() || std::ranges::find(rows->second, name) == rows->second.end()) return false;
  return rows->first == "gemm" || rows->second.size() > 1;
}

std::vector<KernelRuns::Missing> KernelRuns::missing(
    std::span<const std::string_view> machine_reasons) const {
  std::vector<Missing> missing;
  for (const std::string& name : target_.kernel_names()) {
    if (names_.contains(name)) continue;
    missing.push_back({name, ""});
    const auto declined = reasons_.find(name);
    if (declined == reasons_.end()) continue;
    for (const std::string& reason : declined->second)
      for (const std::string_view start : machine_reasons)
        if (reason.starts_with(start)) missing.back().reason = reason;
  }
  return missing;
}

void run_by_first_implementations(const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                                  const SessionOptions& options, const CheckResults& check) {
  run_without({}, model, inputs, options, check);
}

void run_by_every_implementation(const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                                 const SessionOptions& options, const CheckResults& check) {
  in_turn(KernelRuns::on(options.device), [&](const std::set<std::string>& disabled) {
    return run_without(disabled, model, inputs, options, check);
  });
}

void plan_by_every_implementation(const Model& model, const NamedTensors& inputs,
                                  const SessionOptions& options) {
  in_turn(KernelRuns::on(options.device), [&](const std::set<std::string>& disabled) {
    return plan_without(disabled, model, inputs, options);
  });
}

}  // namespace genesis::testing
