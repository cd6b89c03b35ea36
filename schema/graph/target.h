// All that passes know about hardware: plain data and plain functions a backend fills in. The one home of speeds, too, of what
// executors and predictions count with as well.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/graph/op.h"

namespace genesis {

// Ways to run nodes that are switched off: "attention.blocks" for one op, "blocks" wherever it is the name of one.
using KernelNames = std::set<std::string, std::less<>>;
// Whether a way may be taken, as far as these go; null: none is switched off. `family`: what it is a way of, an op or
// "gemm".
bool is_allowed(const KernelNames* disabled, std::string_view family, std::string_view way);

// One node, with known sizes, as a backend is asked about it.
struct KernelQuery {
  const OpDef& op;
  const Attributes& attributes;
  Types inputs, outputs;
  const KernelNames* disabled = nullptr;  // null: none
};

// Which way runs a node, and why the better ones do not.
struct KernelChoice {
  struct Declined {
    std::string name, reason;
    bool operator==(const Declined&) const = default;
  };
  std::string name;  // "attention.blocks"; empty: there is none
  std::vector<Declined> declined;
  std::string decided_later;  // what of it is decided only where it runs, in words; empty: nothing
  bool operator==(const KernelChoice&) const = default;
};

// Of an exchange beside a computation, the part by which it slows that: both want multiprocessors and memory.
inline constexpr double kExchangeShown = 0.75;

// What steps take that run on several streams, as on a GPU. Measured on a large one, where kernels reach this and not what the
// chip could; elsewhere there are no streams. Only ratios matter.
struct StreamSpeeds {
  double bytes_per_second = 2.5e12;    // of memory, read or written
  double flops_per_second = 5e14;      // of products
  double exchanged_per_second = 2e11;  // bytes, between ranks
  double shortest_seconds = 2.5e-6;    // any kernel of a captured graph, its start included
  double filling_seconds = 8e-6;       // what takes longer fills the chip by itself
  double switching_seconds = 1e-6;     // what waiting for another stream takes longer than for one's own
  double worthwhile_seconds = 1e-6;    // what a step on another stream must gain
};

struct Target {
  std::string device = "cpu";  // as on the command line: "cpu", "cuda:0"
  int64_t alignment = 64;      // of every buffer in the arena, bytes

  // How fast the device is, about. Whatever a rewrite gains and costs is counted by these, in seconds where it can be
  // (passes/core/seconds.h); there are no speeds elsewhere.
  double launch_seconds = 0;         // between two small steps, beside their work; 0: next to nothing
  double bytes_per_second = 5e10;    // of memory, read or written
  double flops_per_second = 2.5e11;  // of products
  // Between ranks of one host: what one sends, about, and how long an exchange takes at least. Ranks on CPUs exchange through
  // their memory, and start at once.
  double exchanged_per_second = 1.25e10;  // bytes
  double exchange_seconds = 0;
  double exchange_shown = kExchangeShown;  // of an exchange beside products, the part that shows
  // Bytes that are exchanged by one call: so many that starting it costs little, so few that the last call, which nothing
  // hides, is over soon.
  int64_t bucket_bytes = int64_t{32} << 20;
  // Ranks share a product only if it has so many multiply-adds for each element that they then exchange, or gather.
  int64_t products_per_exchanged = 64, products_per_gathered = 32;

  double last_tiles_seconds = 10e-6;  // partly idle at the end of a product of large tiles
  double hidden_seconds = 6.25e-6;    // a step that takes less runs beside others and costs nothing
  double casts_waited_for = 0.05;     // of casts of weights, the part that nothing hides
  // Below both a step is over before another thread has woken up.
  double tiny_bytes = 64 << 10, tiny_flops = 1e6;
  // Operations of products that count as much as a byte of memory, where nodes are only compared with each other, so that all
  // devices get the same graph: of values that are made again, and of layers that are shared among stages. CPUs reach 10 to 40,
  // large GPUs in 16 bits up to 240; what matters is that neither counts as free.
  double flops_per_byte_again = 32, flops_per_byte_of_stages = 100;
  StreamSpeeds streams;

  bool splits_weights = false;   // weights of bf16 training are kept in parts, instead of cast every step
  KernelNames disabled_kernels;  // goes into every query

  // All ways that can be switched off, by full name.
  std::vector<std::string> (*kernel_names)() = nullptr;
  KernelChoice (*choose)(const KernelQuery&) = nullptr;
  // Empty: some kernel can run this node. Otherwise why not, one reason per implementation.
  std::optional<std::string> (*can_run)(const KernelQuery&) = nullptr;
  // Whether one kernel does all of this node. If not, it is decomposed: kernels of other ops run it, with their bits,
  // and gains nothing by being one node. Null: always.
  bool (*is_native)(const KernelQuery&) = nullptr;
  // Scratch memory the chosen kernel wants for this node, bytes.
  int64_t (*scratch_bytes)(const KernelQuery&) = nullptr;
  // Runs a node on tensors of the host, for constant folding. Empty when it cannot.
  std::optional<std::vector<Tensor>> (*evaluate)(const KernelQuery&,
                                                 std::span<const Tensor> inputs) = nullptr;

  KernelQuery query(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs) const {
    return {op, attributes, inputs, outputs, &disabled_kernels};
  }
  // Of a node with known sizes.
  bool runs(const KernelQuery& query) const { return !can_run || !can_run(query); }
  bool runs_natively(const KernelQuery& query) const { return !is_native || is_native(query); }
};

// What kernels reach of a chip, measured on one GPU: for times on devices that need not be there
// (executor/distributed/prediction.h).
struct ChipRates {
  std::string_view name;
  double low_flops, f32_flops;  // of products, with 16 bits and with 32; per second
  double attention_flops;       // per second
  double bytes;                 // read and written per second
  double step_us;               // that any step takes
};

// The chips known: "h100", "h200". Throws Error naming them for another.
const ChipRates& chip_rates(std::string_view name);

// How ranks are joined. Exchanges take a latency and their bytes over a bandwidth, as NCCL's do.
struct RankLinks {
  int64_t ranks_each_host = 8;
  double same_host = 310e9,
         other_hosts = 50e9;  // bytes/s that a rank sends; between hosts each rank has a link of its own
  double same_host_us = 18, other_hosts_us = 40;  // an exchange takes at least
};

}  // namespace genesis
