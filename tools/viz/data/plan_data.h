// A plan as columns of a page's data: `Plan` and `Budget` of tools/viz/page/data.d.ts.
#pragma once

#include <optional>

#include "schema/graph/graph.h"
#include "schema/graph/plan.h"
#include "tools/viz/data/tables.h"

namespace genesis::viz {

// Bytes alive in the arena, by step.
std::vector<int64_t> live_bytes(const Plan& plan);

// `graph`: what the plan was made of.
Json plan_data(const Plan& plan, const Graph& graph, Tables& tables);

// What `budget` makes of an entry point; empty: none was given.
Json budget_data(const Plan& plan, std::optional<int64_t> budget, Tables& tables);

}  // namespace genesis::viz
