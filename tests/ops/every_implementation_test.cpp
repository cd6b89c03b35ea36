// Requires, when all tests of this program have run, that they ran every kernel implementation of each device and every op. The
// harness runs each case by all implementations that accept it (tests/kernel_runs.h). An implementation that needs other hardware
// is exempt by the reason for which it declined, which is printed. With a filter or a shard nothing is required.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/graph/op.h"
#include "tests/kernel_runs.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

// How the reasons begin by which an implementation declines every node on machines without the hardware that it needs.
const std::map<std::string, std::vector<std::string>> kNeedsMachine = {
    {"gemm.amx", {"this CPU has no AMX"}},
    {"gemm.packed_bf16", {"this CPU has no AVX512_BF16", "this CPU's bf16 dot product is no faster"}},
    {"linear.quantized_panels", {"a CPU without AVX512-VNNI"}},
};

// Ops that are never a step of a plan, with the reason.
const std::map<std::string_view, std::string_view> kOpsWithoutSteps = {
    {"reshape", "it is a view of its operand; reshape_test.cpp runs its kernel, which only folds constants"},
};

bool did_all_run() {
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  return tests.test_to_run_count() + tests.disabled_test_count() == tests.total_test_count();
}

void require_every_implementation(const std::string& device) {
  const KernelRuns& runs = KernelRuns::on(device);
  for (KernelRuns::Missing& missing : runs.missing(kNeedsMachine)) {
    const auto never = kOpsWithoutSteps.find(missing.name.substr(0, missing.name.find('.')));
    if (never != kOpsWithoutSteps.end()) missing.reason = never->second;
    EXPECT_FALSE(missing.reason.empty())
        << device << ": no test runs the kernel implementation " << missing.name;
    if (!missing.reason.empty()) fmt::print("{} did not run {}: {}\n", device, missing.name, missing.reason);
  }
  for (const OpDef* op : all_ops())
    EXPECT_NE(runs.ops().contains(std::string(op->name())), kOpsWithoutSteps.contains(op->name()))
        << device << ": " << op->name()
        << (kOpsWithoutSteps.contains(op->name()) ? " runs, although it is listed as an op without steps"
                                                  : " has not run in any test");
  fmt::print("{}: {} kernel implementations and {} ops ran\n", device, runs.names().size(),
             runs.ops().size());
}

class EveryImplementation : public ::testing::Environment {
 public:
  void TearDown() override {
    if (!did_all_run()) return;
    require_every_implementation("cpu");
    if (why_no_cuda().empty()) require_every_implementation("cuda");
  }
};

[[maybe_unused]] const ::testing::Environment* const kRequirement =
    ::testing::AddGlobalTestEnvironment(new EveryImplementation);

}  // namespace
}  // namespace genesis::testing
