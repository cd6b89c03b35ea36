// Runs a graph by every kernel implementation of its nodes in turn, and keeps account of the implementations that tests have run.
// The harness runs every case this way; tests/ops/every_implementation_test.cpp requires that no implementation is left out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "executor/session.h"
#include "schema/graph/target.h"

namespace genesis::testing {

// The implementations of one device that have run, by full name ("attention.blocks"), and the reasons for which others declined a
// node that ran.
class KernelRuns {
 public:
  // Returns the account of a device ("cpu", "cuda"), which all tests of this process share.
  static KernelRuns& on(const std::string& device);

  explicit KernelRuns(Target target);

  // Returns the implementations of the plan's steps in the order of the steps: rows of the ops' tables, and inside some of them an
  // implementation of a matrix product ("gemm.packed"). Remembers the reasons of those that declined.
  std::vector<std::string> find(const Plan& plan, const std::set<std::string>& disabled);
  void add(const std::vector<std::string>& names, const Plan& plan);

  const Target& target() const { return target_; }
  const std::set<std::string>& names() const { return names_; }
  const std::set<std::string>& ops() const {
    return ops_;
  }  // ops of steps that have run, and of fused programs
  // Returns false for the only implementation of an op, and for the last one of matrix products.
  bool can_be_switched_off(const std::string& name) const;

  struct Missing {
    std::string name, reason;  // reason: why this machine cannot run it; empty: there is no reason
  };
  // Returns the implementations of the device that have not run. `machine_reasons` are the beginnings of reasons that speak of the
  // machine and not of a node.
  std::vector<Missing> missing(std::span<const std::string_view> machine_reasons) const;

 private:
  Target target_;
  std::map<std::string, std::vector<std::string>, std::less<>>
      rows_;  // by op, best first; "gemm": of products
  std::set<std::string> names_, ops_;
  std::map<std::string, std::set<std::string>> reasons_;
};

// A run of a graph: its results, and the implementations that were switched off, in words.
using CheckResults = std::function<void(const NamedTensors& results, const std::string& how)>;

// Runs the entry point "main" by the implementations that a session chooses. Then switches off one implementation of its nodes
// after the other, as long as others are left, and runs it again each time.
void run_by_every_implementation(const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                                 const SessionOptions& options, const CheckResults& check);
// Only makes the plans of these runs, for a device that this machine does not have.
void plan_by_every_implementation(const Model& model, const NamedTensors& inputs,
                                  const SessionOptions& options);
// Runs it once, by the implementations that a session chooses.
void run_by_first_implementations(const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                                  const SessionOptions& options, const CheckResults& check);

}  // namespace genesis::testing
