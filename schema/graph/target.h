// Target, everything that passes know about hardware: plain data and plain functions that a backend fills in. It is also the only
// place for measured speeds, which executors and predictions use too.
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

// Names of kernel implementations that are switched off: "attention.blocks" for one op, "blocks" for all implementations of this
// name.
using KernelNames = std::set<std::string, std::less<>>;
// Returns true unless `disabled` switches off `implementation` of `family`, which is an op or "gemm"; null disables
// nothing.
bool is_allowed(const KernelNames* disabled, std::string_view family, std::string_view implementation);

// The question a backend is asked: one node with known sizes.
struct KernelQuery {
  const OpDef& op;
  const Attributes& attributes;
  Types inputs, outputs;
  const KernelNames* disabled = nullptr;  // null: none are disabled
};

// The kernel implementation that runs a node, and why the better ones do not.
struct KernelChoice {
  struct Declined {
    std::string name, reason;
    bool operator==(const Declined&) const = default;
  };
  std::string name;  // "attention.blocks"; empty: there is none
  std::vector<Declined> declined;
  std::string decided_later;  // describes decisions that are made only at run time; empty: none
  bool operator==(const KernelChoice&) const = default;
};

// Share of an exchange's time by which a computation that runs at the same time slows down: both compete for multiprocessors and
// memory.
inline constexpr double kExchangeShown = 0.75;

// Times of steps that run on several streams, as on a GPU. They were measured on a large GPU and are the rates that kernels
// reach, not peak rates of the chip; other devices have no streams. Only ratios matter.
struct StreamSpeeds {
  double bytes_per_second = 2.5e12;    // memory read or written
  double flops_per_second = 5e14;      // matrix products
  double exchanged_per_second = 2e11;  // bytes exchanged between ranks
  double shortest_seconds = 2.5e-6;    // any kernel of a captured graph, including its start
  double filling_seconds = 8e-6;       // a step that takes longer fills the chip by itself
  double switching_seconds = 1e-6;     // extra cost of waiting for another stream instead of the same one
  double worthwhile_seconds = 1e-6;    // least gain for which a step moves to another stream
};

struct Target {
  std::string device = "cpu";  // name on the command line: "cpu", "cuda:0"
  int64_t alignment = 64;      // bytes; alignment of every buffer in the arena

  // Approximate speeds of the device. Passes count gains and costs of rewrites only with these numbers, in seconds where possible
  // (schema/graph/cost_model.h).
  double launch_seconds = 0;         // between two small steps, in addition to their work; 0: negligible
  double bytes_per_second = 5e10;    // memory read or written
  double flops_per_second = 2.5e11;  // matrix products
  // Exchange between ranks of one host: the approximate rate at which a rank sends, and the least time of an exchange. Ranks on
  // CPUs exchange through memory without a start-up time.
  double exchanged_per_second = 1.25e10;  // bytes
  double exchange_seconds = 0;
  double exchange_shown = kExchangeShown;  // share of an exchange's time that matrix products do not hide
  // Bytes exchanged by one call: large enough that starting it costs little, small enough that the last call, which nothing
  // hides, ends soon.
  int64_t bucket_bytes = int64_t{32} << 20;
  // Least number of multiply-adds per exchanged or gathered element for which ranks share a matrix product.
  int64_t products_per_exchanged = 64, products_per_gathered = 32;

  double last_tiles_seconds = 10e-6;  // partly idle time at the end of a product of large tiles
  double hidden_seconds = 6.25e-6;    // a step that takes less runs beside other steps and costs nothing
  double casts_waited_for = 0.05;     // share of the time of weight casts that no other work hides
  // A step below both limits is done before another thread has woken up.
  double tiny_bytes = 64 << 10, tiny_flops = 1e6;
  // Operations of matrix products that count as much as one byte of memory traffic, for choosing values to recompute and for
  // dividing layers among stages. These only compare nodes with each other, and are equal for all devices so that all get the
  // same graph. CPUs reach 10 to 40, large GPUs in 16 bits up to 240; it only matters that neither kind of work counts as free.
  double flops_per_byte_again = 32, flops_per_byte_of_stages = 100;
  StreamSpeeds streams;

  bool adds_in_f32 = false;  // a product of 16-bit operands takes an f32 addend and gives an f32 sum at no cost
  bool prefers_weight_halves = false;  // keeps bf16-trained weights as two halves; no cast each step
  KernelNames disabled_kernels;        // passed on in every query

  // Returns the full names of all implementations that can be switched off.
  std::vector<std::string> (*kernel_names)() = nullptr;
  KernelChoice (*choose)(const KernelQuery&) = nullptr;
  // Returns empty if some kernel can run this node; otherwise the reasons, one per implementation.
  std::optional<std::string> (*can_run)(const KernelQuery&) = nullptr;
  // Returns true if one kernel computes the whole node. Otherwise the node is decomposed: kernels of other ops run it with the
  // same bits, and being one node gains nothing. Null: always true.
  bool (*is_native)(const KernelQuery&) = nullptr;
  // Returns the bytes of scratch memory that the chosen kernel needs for this node.
  int64_t (*scratch_bytes)(const KernelQuery&) = nullptr;
  // Runs a node on tensors of the host, for constant folding. Returns empty if it cannot.
  std::optional<std::vector<Tensor>> (*evaluate)(const KernelQuery&,
                                                 std::span<const Tensor> inputs) = nullptr;

  KernelQuery query(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs) const {
    return {op, attributes, inputs, outputs, &disabled_kernels};
  }
  // Return whether some kernel runs a node with known sizes, and whether one kernel computes all of it.
  bool runs(const KernelQuery& query) const { return !can_run || !can_run(query); }
  bool runs_natively(const KernelQuery& query) const { return !is_native || is_native(query); }
};

// Rates that kernels reach on a chip, measured on one GPU, for predicting times on devices that are not present
// (executor/distributed/prediction.h).
struct ChipRates {
  std::string_view name;
  double low_flops, f32_flops;  // matrix products per second in 16 and in 32 bits
  double attention_flops;       // per second
  double bytes;                 // bytes read and written per second
  double step_us;               // least time of any step
};

// Returns the rates of a chip: "h100" or "h200". Throws Error naming the known chips for any other.
const ChipRates& chip_rates(std::string_view name);

// Describes how ranks are connected. An exchange takes a latency plus its bytes over a bandwidth, as in NCCL.
struct RankLinks {
  int64_t ranks_each_host = 8;
  double same_host = 310e9,
         other_hosts = 50e9;  // bytes/s that a rank sends; between hosts each rank has its own link
  double same_host_us = 18, other_hosts_us = 40;  // least time of an exchange
};

}  // namespace genesis
