#include "tools/viz/data/mesh_data.h"

#include <algorithm>
#include <future>

#include "executor/compile.h"
#include "executor/distributed/traffic.h"
#include "executor/runtime/device.h"
#include "tools/viz/data/plan_data.h"

namespace genesis::viz {
namespace {

constexpr int64_t kMaxRanks = 16;

Json memory_of_rank(const Model& model, const std::string& entry, const Bindings& sizes,
                    SessionOptions session, int64_t rank) {
  session.rank = rank;
  const CompiledEntry made = compile_entry(model, entry, sizes, target_of(session.device), session);
  return {{"arena_bytes", made.plan.arena_bytes},
          {"state_bytes", state_bytes(made.plan, made.work ? *made.work : model)}};
}

Json traffic_data(const Plan& plan, const Mesh& mesh) {
  Json rows = Json::array();
  for (const AxisTraffic& along : traffic_of(plan, mesh))
    rows.push_back({{"axis", along.axis}, {"calls", along.calls}, {"bytes", along.bytes}});
  return rows;
}

}  // namespace

Json mesh_data(const Model& model, const std::string& entry, const Bindings& sizes,
               const SessionOptions& session, const Plan& plan) {
  std::vector<std::future<Json>> made;
  for (int64_t rank = 0; rank < std::min(session.mesh.ranks(), kMaxRanks); ++rank)
    made.push_back(std::async(std::launch::async,
                              [&, rank] { return memory_of_rank(model, entry, sizes, session, rank); }));
  Json ranks = Json::array();
  for (auto& rank : made) ranks.push_back(rank.get());
  return {{"axes", session.mesh.to_string()},
          {"zero", session.zero},
          {"ranks", ranks},
          {"rank_count", session.mesh.ranks()},
          {"traffic", traffic_data(plan, session.mesh)}};
}

}  // namespace genesis::viz
