// All that passes know about hardware: plain data and plain functions a backend fills in.
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
  std::string settled_there;  // what of it is settled only where it runs, in words; empty: nothing
  bool operator==(const KernelChoice&) const = default;
};

struct Target {
  std::string device = "cpu";        // as on the command line: "cpu", "cuda:0"
  int64_t alignment = 64;            // of every buffer in the arena, bytes
  double launch_seconds = 0;         // between two small steps, beside their work; 0: next to nothing
  double bytes_per_second = 5e10;    // of memory, read or written, about
  double flops_per_second = 2.5e11;  // of products, about
  // Between ranks of one host: what one sends, about, and how long an exchange takes at least. Ranks on CPUs exchange through
  // their memory, and start at once.
  double exchanged_per_second = 1.25e10;  // bytes
  double exchange_seconds = 0;
  bool splits_weights = false;   // weights of bf16 training are kept as halves, instead of cast every step
  KernelNames disabled_kernels;  // goes into every query

  // All ways that can be switched off, by full name.
  std::vector<std::string> (*kernel_names)() = nullptr;
  KernelChoice (*choose)(const KernelQuery&) = nullptr;
  // Empty: some kernel can run this node. Otherwise why not, one reason per implementation.
  std::optional<std::string> (*can_run)(const KernelQuery&) = nullptr;
  // Whether one kernel does all of this node. If not, it runs in parts, by the kernels of other ops and with their bits,
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

}  // namespace genesis
