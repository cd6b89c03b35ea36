// Requires, when all tests of this program have run, that they ran every kernel implementation of each device and every op. The
// harness runs each case by all implementations that accept it (tests/kernel_runs.h). An implementation that needs other hardware
// is exempt by the reason for which it declined, which is printed. A build with CUDA on a machine without a GPU requires that the
// plans of the cases have every implementation of an H100. With a filter or a shard nothing is required.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/graph/op.h"
#include "tests/kernel_runs.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

// The beginnings of the reasons by which implementations decline every node on machines without the hardware or the library that
// they need.
constexpr std::string_view kMachineReasons[] = {
    "this CPU has no AMX",
    "this CPU has no AVX512_BF16",
    "this CPU's bf16 dot product is no faster",
    "a CPU without AVX512-VNNI",
    "for Hopper chips",
    "for chips of compute capability",
    "this machine has no cuBLASLt",
};

struct Exempt {
  std::string_view device;  // empty: every device
  std::string_view op, reason;
};
// Ops whose kernels cannot be a step of a plan in these tests.
const Exempt kExempt[] = {
    {"", "reshape",
     "a plan has a view in its place; reshape_test.cpp runs the kernel, which only folds constants"},
    {"", "loop", "it needs a body, an entry point beside it; executor/loop_test.cpp runs it"},
    {"cuda", "send", "it needs two ranks, each with its own GPU; tests/distributed has them"},
    {"cuda", "recv", "it needs two ranks, each with its own GPU; tests/distributed has them"},
};

std::string_view why_exempt(const std::string& device, std::string_view op) {
  for (const Exempt& exempt : kExempt)
    if (exempt.op == op && (exempt.device.empty() || exempt.device == device)) return exempt.reason;
  return "";
}

bool did_all_run() {
  const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
  return tests.test_to_run_count() + tests.disabled_test_count() == tests.total_test_count();
}

void require_every_implementation(const std::string& device, const std::string& verb) {
  const KernelRuns& runs = KernelRuns::on(device);
  size_t exempt = 0;
  for (const auto& [name, why] : runs.missing(kMachineReasons)) {
    const std::string reason(why.empty() ? why_exempt(device, name.substr(0, name.find('.'))) : why);
    EXPECT_FALSE(reason.empty()) << device << ": no test " << verb << "s the kernel implementation " << name;
    if (!reason.empty()) fmt::print("{} did not {} {}: {}\n", device, verb, name, reason);
    exempt += !reason.empty();
  }
  for (const OpDef* op : all_ops())
    EXPECT_NE(runs.ops().contains(std::string(op->name())), !why_exempt(device, op->name()).empty())
        << device << ": whether a test " << verb << "s " << op->name();
  fmt::print("{}: tests {} {} kernel implementations and {} ops; {} implementations are exempt\n", device,
             verb, runs.names().size(), runs.ops().size(), exempt);
}

class EveryImplementation : public ::testing::Environment {
 public:
  void TearDown() override {
    if (!did_all_run()) return;
    require_every_implementation("cpu", "run");
    if (GENESIS_HAVE_CUDA) require_every_implementation("cuda", why_no_cuda().empty() ? "run" : "plan");
  }
};

[[maybe_unused]] const ::testing::Environment* const kRequirement =
    ::testing::AddGlobalTestEnvironment(new EveryImplementation);

}  // namespace
}  // namespace genesis::testing
