#include "tools/viz/data/entry_data.h"

#include <future>
#include <optional>

#include "executor/compile.h"
#include "executor/memory_report.h"
#include "executor/runtime/device.h"
#include "executor/runtime/step_call.h"
#include "passes/core/bind.h"
#include "passes/distribution/rank_sizes.h"
#include "passes/pipelines.h"
#include "tools/viz/data/graph_data.h"
#include "tools/viz/data/mesh_data.h"
#include "tools/viz/data/plan_data.h"

namespace genesis::viz {
namespace {

// The snapshots of a graph, in the order in which passes make them. Keeps a copy of the last graph.
class Snapshots {
 public:
  Snapshots(const Graph& author, Tables& tables) : author_(author), tables_(tables) {}

  void add(const GraphSnapshot& snapshot) {
    // Binding only replaces symbols by sizes: the nodes are still the author's, and now their costs are known.
    const bool is_author = !last_ && has_same_nodes(author_, snapshot.graph);
    if (is_author)
      add_author(&snapshot.graph);
    else {
      if (json_.empty()) add_author(nullptr);
      json_.push_back({{"kind", last_ ? "pass" : "bound"},
                       {"name", snapshot.name},
                       {"why", snapshot.why},
                       {"graph", graph_data(snapshot.graph, &snapshot.graph, tables_)},
                       {"change", change_data(last_ ? *last_ : author_, snapshot.graph)}});
    }
    last_ = std::make_unique<Graph>(copy_graph(snapshot.graph, snapshot.graph.model()));
  }

  Json finish(bool has_plan) {
    if (json_.empty()) add_author(nullptr);
    if (has_plan)
      json_.push_back({{"kind", "final"},
                       {"name", "final"},
                       {"why", "the graph that the plan runs"},
                       {"same_as", json_.size() - 1}});
    return std::move(json_);
  }

  const Graph& last() const { return *last_; }
  // Sets the kernels of the last graph, by node.
  void set_kernels(const std::vector<int32_t>& kernels) {
    json_.back()["graph"]["nodes"]["kernel"] = kernels;
  }

 private:
  void add_author(const Graph* sized) {
    json_.push_back({{"kind", "author"},
                     {"name", "author"},
                     {"why", ""},
                     {"graph", graph_data(author_, sized, tables_)}});
  }

  const Graph& author_;
  Tables& tables_;
  Json json_ = Json::array();
  std::unique_ptr<Graph> last_;
};

std::vector<int32_t> kernels_by_node(const Plan& plan, const Graph& graph, const Target& target,
                                     const RunnerOptions& options, Tables& tables) {
  std::unordered_map<std::string, int32_t> chosen;
  if (target.choose) {
    const std::vector<KernelChoice> choices = choices_of(plan, target, options);
    for (size_t i = 0; i < choices.size(); ++i) chosen[plan.steps[i].name] = tables.kernel(choices[i]);
  }
  std::vector<int32_t> kernels;
  for (const Node& node : graph.nodes()) {
    const auto at = chosen.find(node.name);
    kernels.push_back(at == chosen.end() ? -1 : at->second);
  }
  return kernels;
}

// Returns the plan under a memory budget; nothing if the budget cannot be met, because offsets leave gaps.
std::optional<Plan> plan_under(const Model& model, const std::string& entry, const Bindings& sizes,
                               SessionOptions session, int64_t budget) {
  session.memory_budget = budget;
  try {
    return compile_entry(model, entry, sizes, target_of(session.device), session).plan;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Plans under up to six budgets: the session's own, four between the memory of that plan and the least possible, and
// the least. The four in between are planned in parallel, since each takes at least as long as the first plan did.
Json budgets_data(const Model& model, const Graph& entry, const EntryOptions& options, const Bindings& sizes,
                  const Plan& plan, Tables& tables) {
  constexpr int kSteps = 5;
  const auto under = [&](int64_t budget) {
    return plan_under(model, entry.name(), sizes, options.session, budget);
  };
  const std::optional<Plan> least = under(0);
  Json budgets = Json::array({budget_data(plan, options.session.memory_budget, tables)});
  if (!least) return budgets;
  std::vector<std::pair<int64_t, std::future<std::optional<Plan>>>> smaller;
  for (int i = 1; i < kSteps; ++i) {
    const int64_t budget = plan.arena_bytes - (plan.arena_bytes - least->arena_bytes) * i / kSteps;
    if (budget >= plan.arena_bytes || budget <= least->arena_bytes) break;
    smaller.emplace_back(budget, std::async(std::launch::async, under, budget));
  }
  for (auto& [budget, made] : smaller)
    if (const auto found = made.get(); found && found->arena_bytes < budgets.back()["arena_bytes"])
      budgets.push_back(budget_data(*found, budget, tables));
  if (least->arena_bytes < budgets.back()["arena_bytes"])
    budgets.push_back(budget_data(*least, least->arena_bytes, tables));
  return budgets;
}

Json sizes_data(const Graph& entry, const EntryOptions& options, const Bindings& bound) {
  Json sizes = Json::array();
  for (const std::string& symbol : passes::symbols_of(entry)) {
    const auto is_there = [&](const Json& row) { return row["symbol"] == symbol; };
    const auto at = bound.find(symbol);
    if (at == bound.end() || std::ranges::any_of(sizes, is_there)) continue;
    sizes.push_back(
        {{"symbol", symbol}, {"size", at->second}, {"assumed", options.assumed.contains(symbol)}});
  }
  return sizes;
}

bool can_be_bound(const Graph& entry, const Bindings& sizes) {
  try {
    passes::bind(entry, sizes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool can_be_planned(const Model& model, const Graph& entry, const SessionOptions& session,
                    const Bindings& all) {
  try {
    const Bindings sizes = passes::sizes_of_rank(entry, all, session.mesh);
    compile_entry(model, entry.name(), sizes, target_of(session.device), session);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns true if an entry point could not be planned because of sizes that the user gave for it: its shapes do not fit together,
// or it can be planned with other sizes, those that are assumed or the least.
bool are_sizes_to_blame(const Model& model, const Graph& entry, const EntryOptions& options,
                        const Bindings& sizes) {
  const int64_t ranks = options.session.mesh.ranks();
  Bindings least;
  bool is_one_given = false;
  for (const std::string& symbol : passes::symbols_of(entry)) {
    least[symbol] = ranks;
    is_one_given |= options.sizes.contains(symbol) && !options.assumed.contains(symbol);
  }
  return is_one_given && (!can_be_bound(entry, sizes) ||
                          can_be_planned(model, entry, options.session, assumed_sizes(model, {}, ranks)) ||
                          can_be_planned(model, entry, options.session, least));
}

void tell(const EntryOptions& options, const std::string& what) {
  if (options.progress) options.progress(what, 0, 0);
}

// Compiles the entry point and adds what the page shows of its plan. Throws Error if it cannot be planned.
void add_plan(EntryData& data, const Model& model, const Graph& entry, const EntryOptions& options,
              const Bindings& sizes, Snapshots& snapshots, Tables& tables) {
  const Target target = target_of(options.session.device);
  data.json["sizes"] = sizes_data(entry, options, sizes);
  const CompiledEntry made = compile_entry(model, entry.name(), sizes, target, options.session, false,
                                           [&](const GraphSnapshot& snapshot) {
                                             snapshots.add(snapshot);
                                             tell(options, fmt::format("compiling '{}'", entry.name()));
                                           });
  data.json["plan"] = plan_data(made.plan, snapshots.last(), tables);
  snapshots.set_kernels(kernels_by_node(made.plan, snapshots.last(), target, made.runner, tables));
  data.plan = made.plan;
  if (options.measured && options.measured->timings.size() == made.plan.steps.size())
    data.json["measured"] = measured_data(made.plan, *options.measured, tables);
  if (options.budgets && passes::trains(entry))
    tell(options, fmt::format("planning '{}' with less memory", entry.name()));
  if (options.budgets && passes::trains(entry))
    data.json["budgets"] = budgets_data(model, entry, options, sizes, made.plan, tables);
  if (options.session.mesh.ranks() > 1)
    data.json["mesh"] = mesh_data(model, entry.name(), sizes, options.session, made.plan);
}

}  // namespace

EntryData entry_data(const Model& model, const Graph& entry, const EntryOptions& options, Tables& tables) {
  EntryData data;
  data.json = {{"name", entry.name()},
               {"sizes", sizes_data(entry, options, options.sizes)},
               {"device", options.session.device},
               {"snapshots", nullptr},
               {"budgets", Json::array()}};
  tell(options, fmt::format("reading '{}'", entry.name()));
  Snapshots snapshots(entry, tables);
  if (!options.passes) {
    data.json["snapshots"] = snapshots.finish(false);
    return data;
  }
  // Sizes that the ranks do not divide are a mistake of the user, so the Error is not shown on the page.
  const Bindings sizes = options.sizes_are_of_rank
                             ? options.sizes
                             : passes::sizes_of_rank(entry, options.sizes, options.session.mesh);
  try {
    add_plan(data, model, entry, options, sizes, snapshots, tables);
  } catch (Error& error) {
    if (are_sizes_to_blame(model, entry, options, sizes)) {
      error.add_context("while planning entry point '" + entry.name() + "'" + sizes_text(options.sizes));
      throw;
    }
    data.json["problem"] = error.what();
  }
  data.json["snapshots"] = snapshots.finish(data.json.contains("plan"));
  return data;
}

Bindings assumed_sizes(const Model& model, const Bindings& given, int64_t ranks) {
  Bindings assumed;
  for (const auto& entry : model.entries())
    for (const std::string& symbol : passes::symbols_of(*entry)) {
      const bool is_length =
          symbol.find("seq") != std::string::npos || symbol.find("len") != std::string::npos;
      if (!given.contains(symbol)) assumed[symbol] = is_length ? 128 : ranks;
    }
  return assumed;
}

}  // namespace genesis::viz
