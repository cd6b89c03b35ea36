// The options that determine how a Session runs a model. Separate from Session, for code that only compiles or parses flags.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "schema/graph/cache_layout.h"
#include "schema/ranks/mesh.h"

namespace genesis {

class Collectives;

struct SessionOptions {
  // "cpu", "cuda", "cuda:N", or "auto": cuda if the first GPU can be used, else cpu (Session::device() tells which).
  std::string device = "cpu";
  int threads = 0;       // 0: all cores that this process may use
  bool optimize = true;  // run the pass pipeline
  // Names of passes, planning steps, runner features and kernels to switch off (executor/switches.h).
  std::set<std::string> disabled = {};
  // Keeps weights in parts during bf16 training (passes/precision/passes.h). Empty: the device's default.
  std::optional<bool> weight_halves = {};
  bool find_nonfinite = false;  // stop at the first node that produces a NaN or an infinity
  // The limit of a training step's arena in bytes; 0: as little as possible. Values that do not fit are recomputed in the
  // backward pass (passes/memory/remat.cpp). Empty: the limit in the model's metadata ("memory_budget"), or none.
  std::optional<int64_t> memory_budget = {};
  // The number of plans kept, one for each entry point and set of sizes. The least recently used one is dropped and compiled
  // again if its sizes come back. If the sizes of inputs vary a lot, pad them to a few.
  int64_t max_plans = 64;
  // The size of the cache of a language model (passes/core/cache_size.h). Empty: the size that the model's file has.
  std::optional<CacheSize> cache = {};
  // The ranks that run the model together, the number of this rank, and how ranks exchange data: all three from a World
  // (executor/distributed/world.h). Without `collectives` a session compiles for the mesh but cannot run.
  Mesh mesh = {};
  int64_t rank = 0;
  std::shared_ptr<Collectives> collectives = {};
  // The ZeRO stage: what the ranks along "data" shard. 0: nothing, 1: optimizer states, 2: gradients too, 3: weights too.
  int zero = 0;
};

// Resolves the device "auto", once, so that later messages name the real device. Throws Error for an unknown device and for
// numbers out of range.
SessionOptions resolved(SessionOptions options);

}  // namespace genesis
