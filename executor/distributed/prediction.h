// How long a run takes on ranks that need not be there, predicted from the plan of one of them: what each step takes on a
// known chip, what each exchange takes on known links, and what of the exchanges the computation hides.
//
// The rates of a chip (schema/graph/target.h) are what kernels reach of its limits, measured on one GPU; exchanges take a
// latency and their bytes over a bandwidth (the alpha-beta model, Hockney 1994). How well this foretells is in docs/scaling.md.
#pragma once

#include "schema/graph/plan.h"
#include "schema/graph/target.h"
#include "schema/ranks/mesh.h"

namespace genesis {

struct Prediction {
  double step_us = 0;      // all
  double compute_us = 0;   // without the exchanges
  double exchange_us = 0;  // of all exchanges, one after the other
  double shown_us() const { return step_us - compute_us; }
};

// Of a plan for one rank of the mesh. An exchange runs beside the steps that do not wait for it, and slows them, since both
// want multiprocessors and memory.
Prediction predict(const Plan& plan, const Mesh& mesh, const ChipRates& chip, const RankLinks& links = {});

}  // namespace genesis
