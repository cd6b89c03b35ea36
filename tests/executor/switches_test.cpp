// Tests what can be disabled by name, and that a disabled kernel is not chosen.
#include "executor/switches.h"

#include <algorithm>

#include "executor/runtime/device.h"
#include "executor/inspector.h"
#include "executor/session.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reshape.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

std::string refusal(const std::set<std::string>& names) {
  try {
    parse_switches(names, target_of("cpu"));
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(Switches, AreSortedByWhoHeedsThem) {
  const Switches s = parse_switches(
      {"cse", "memory_reuse", "side_stream", "kernel:attention.blocks", "kernel:packed"}, target_of("cpu"));
  EXPECT_EQ(s.passes, (std::set<std::string, std::less<>>{"cse"}));
  EXPECT_FALSE(s.plan.reuse);
  EXPECT_TRUE(s.plan.in_place);
  EXPECT_FALSE(s.runner.side_stream);
  EXPECT_EQ(s.runner.disabled_kernels, (KernelNames{"attention.blocks", "packed"}));
}

TEST(Switches, FeaturesOfARunCountAsKernels) {
  EXPECT_FALSE(parse_switches({"kernel:peer_memory"}, target_of("cpu")).runner.peer_memory);
  for (const std::string_view implementation : all_joining_implementations())
    for (const char* prefix : {"", "kernel:"}) {
      const Switches s = parse_switches({prefix + std::string(implementation)}, target_of("cpu"));
      EXPECT_EQ(s.runner.disabled_kernels, KernelNames{std::string(implementation)});
    }
  EXPECT_NE(refusal({"kernel:node_order"}).find("has no kernel 'node_order'"), std::string::npos);
}

TEST(Switches, NamesThatAreNoneAreNamedWithTheNearest) {
  EXPECT_NE(refusal({"cee"}).find("there is no pass 'cee' (did you mean 'cse'?)"), std::string::npos)
      << refusal({"cee"});
  EXPECT_NE(refusal({"kernel:attention.block"}).find("did you mean 'attention.blocks'?"), std::string::npos)
      << refusal({"kernel:attention.block"});
  EXPECT_NE(refusal({"kernel:"}).find("has no kernel ''"), std::string::npos);
}

std::shared_ptr<Model> attention_model() {
  auto model = std::make_shared<Model>();
  Graph& g = model->add_entry("main");
  const Value q = g.add_input("q", {DType::f32, {2, 24, 4, 16}}), k = g.add_input("k", q.type());
  const Value y = attention(q, k, k);
  g.add_output("y", y);
  g.add_output("product", matmul(reshape(y, {192, 16}), g.add_input("w", {DType::f32, {16, 40}})));
  return model;
}

NamedTensors inputs_of(Session& session) {
  NamedTensors inputs;
  int seed = 0;
  for (const PlanPort& port : session.plan("main", {}).inputs) {
    std::vector<float> values(static_cast<size_t>(port.type.numel()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 37 + static_cast<size_t>(++seed)) % 101) / 50 - 1;
    inputs.emplace(port.name, Tensor::copy_of(port.type, values.data()));
  }
  return inputs;
}

bool takes(Session& session, const std::string& kernel) {
  const std::vector<std::string> kernels = Inspector(session).kernels("main", inputs_of(session));
  return std::find(kernels.begin(), kernels.end(), kernel) != kernels.end();
}

TEST(Switches, AKernelThatIsOffIsNotTaken) {
  Session usual(attention_model());
  EXPECT_TRUE(takes(usual, "attention.blocks"));
  EXPECT_TRUE(takes(usual, "gemm.packed"));
  Session other(attention_model(), {.disabled = {"kernel:attention.blocks", "kernel:gemm.packed"}});
  EXPECT_TRUE(takes(other, "attention.reference"));
  EXPECT_FALSE(takes(other, "attention.blocks"));
  EXPECT_TRUE(takes(other, "gemm.reference"));
  const NamedTensors a = usual.run("main", inputs_of(usual)), b = other.run("main", inputs_of(other));
  for (const char* name : {"y", "product"}) {
    const auto x = a.at(name).to_doubles(), y = b.at(name).to_doubles();
    for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4) << name << " " << i;
  }
}

TEST(Switches, WhereNoKernelIsLeftTheNodeIsNamed) {
  Session session(attention_model(),
                  {.disabled = {"kernel:attention.blocks", "kernel:attention.reference"}});
  try {
    session.plan("main", {});
    FAIL() << "nothing is left to run it";
  } catch (const Error& error) {
    for (const char* part : {"'attention'", "blocks: switched off", "reference: switched off"})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace genesis
