// Converts a plan to columns of a page's data: `Plan` and `Budget` of tools/viz/page/data.d.ts.
#pragma once

#include <optional>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

enum class BlockKind : int32_t { kActivation = 0, kGradient = 1, kScratch = 2, kResult = 3 };
inline constexpr size_t kBlockKinds = 4;
inline constexpr const char* kBlockKindNames[kBlockKinds] = {"activation", "gradient", "scratch buffer",
                                                             "result"};
// Returns the kind of an arena block, by the value that its first step writes.
BlockKind kind_of(const Plan& plan, const ArenaBlock& block);

// Returns the bytes of the states that the plan uses, by role: [["parameter", 1024], ...].
Json state_bytes(const Plan& plan, const Model& model);
// Returns the bytes alive in the arena, by step.
std::vector<int64_t> live_bytes(const Plan& plan);

// `graph`: the graph that the plan was made from.
Json plan_data(const Plan& plan, const Graph& graph, Tables& tables);

// Describes the plan under a memory budget; an empty `budget` means no limit was given.
Json budget_data(const Plan& plan, std::optional<int64_t> budget, Tables& tables);

}  // namespace genesis::viz
