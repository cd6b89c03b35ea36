// How long a run takes on ranks that need not be there, predicted from the plan of one of them: what each step takes on a
// known chip, what each exchange takes on known links, and what of the exchanges the computation hides.
//
// The rates of a chip are what kernels reach of its limits, measured on one GPU; exchanges take a latency and their bytes
// over a bandwidth, as NCCL's do (the alpha-beta model, Hockney 1994). How well this foretells is in docs/scaling.md.
#pragma once

#include <string_view>

#include "schema/graph/plan.h"
#include "schema/ranks/mesh.h"

namespace genesis {

// Per second and microsecond: what kernels reach, not what the chip could.
struct ChipRates {
  std::string_view name;
  double low_flops, f32_flops;  // of products, with 16 bits and with 32
  double attention_flops;
  double bytes;    // read and written
  double step_us;  // that any step takes
};

// The chips known: "h100", "h200". Throws Error naming them for another.
const ChipRates& chip_rates(std::string_view name);

struct Links {
  int64_t ranks_each_host = 8;
  double same_host = 310e9,
         other_hosts = 50e9;  // bytes/s that a rank sends; between hosts each rank has a link of its own
  double same_host_us = 18, other_hosts_us = 40;  // an exchange takes at least
};

struct Prediction {
  double step_us = 0;      // all
  double compute_us = 0;   // without the exchanges
  double exchange_us = 0;  // of all exchanges, one after the other
  double shown_us() const { return step_us - compute_us; }
};

// Of a plan for one rank of the mesh. An exchange runs beside the steps that do not wait for it, and slows them, since both
// want multiprocessors and memory.
Prediction predict(const Plan& plan, const Mesh& mesh, const ChipRates& chip, const Links& links = {});

}  // namespace genesis
