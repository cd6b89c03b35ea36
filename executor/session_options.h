// How a Session runs a model. Apart from Session, so that what only compiles or reads flags needs no more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "schema/ranks/mesh.h"

namespace genesis {

class Collectives;

struct SessionOptions {
  // "cpu", "cuda", "cuda:N", or "auto": cuda where the first GPU can be used, else cpu (Session::device() says which).
  std::string device = "cpu";
  int threads = 0;       // 0: all cores that this process may use
  bool optimise = true;  // run the pass pipeline
  // What runs without: names of passes, of steps of planning and running, and of kernels (executor/switches.h).
  std::set<std::string> disabled = {};
  // Whether bf16 training keeps weights in parts (passes/precision/passes.h); empty: as suits the device.
  std::optional<bool> split_weights = {};
  bool find_nonfinite = false;  // stop at the first node that makes a NaN or an infinity
  // Bytes that the arena of a training step may take; 0: as few as can be. What does not fit is computed
  // again in the backward pass (passes/memory/remat.cpp). Empty: what the model's metadata say ("memory_budget"), or
  // no limit.
  std::optional<int64_t> memory_budget = {};
  // Plans kept, one for each entry point and set of sizes; the one not used for longest goes, and is compiled
  // again when those sizes come back. Inputs of ever new sizes are fastest padded to a few.
  int64_t max_plans = 64;
  // The ranks that run the model together, this one's number, and how they exchange data: all three from a World
  // (executor/distributed/world.h). Without `collectives` a session compiles for the mesh and runs nothing.
  Mesh mesh = {};
  int64_t rank = 0;
  std::shared_ptr<Collectives> collectives = {};
  // What the ranks along "data" share instead of keeping it all, by ZeRO's stages: 0: nothing, 1: the optimizer's states,
  // 2: gradients too, 3: weights too.
  int zero = 0;
};

// With the device that "auto" stands for, which is so decided once and named in all that is said later. Throws Error for
// a device that is none, and for numbers that no session can have.
SessionOptions resolved(SessionOptions options);

}  // namespace genesis
