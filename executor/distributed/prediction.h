// Predicts the duration of a run on ranks that need not exist, from the plan of one of them: the time of each step on a known
// GPU, the time of each exchange on known links, and how much of the exchanges overlaps with computation.
//
// The rates of a GPU (schema/graph/target.h) are those that kernels reach, measured on one GPU. An exchange takes a latency plus
// its bytes over a bandwidth (the alpha-beta model, Hockney 1994). docs/scaling.md says how accurate this is.
#pragma once

#include "schema/graph/plan.h"
#include "schema/graph/target.h"
#include "schema/ranks/mesh.h"

namespace genesis {

struct Prediction {
  double step_us = 0;      // everything
  double compute_us = 0;   // without the exchanges
  double exchange_us = 0;  // sum over all exchanges
  double shown_us() const { return step_us - compute_us; }
};

// Predicts from a plan for one rank of the mesh. An exchange overlaps with the steps that do not wait for it, and slows them
// down, since both need multiprocessors and memory bandwidth.
Prediction predict(const Plan& plan, const Mesh& mesh, const ChipRates& chip, const RankLinks& links = {});

}  // namespace genesis
