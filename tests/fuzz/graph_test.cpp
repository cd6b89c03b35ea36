// Loads, plans and runs random graphs that nobody would write: each ends in results or in an Error. The numbers are
// fixed, so failures can be reproduced with `run_graphs NUMBER 1`. Then tests some handwritten graphs that once
// caused writes out of bounds.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "executor/session.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/sort.h"
#include "tests/fuzz/try_run.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Limits the address space that this process may allocate further. A sanitizer needs all of it, so it has no limit.
class AddressLimit {
 public:
  explicit AddressLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{std::min(bytes, before_.rlim_max), before_.rlim_max};
    if (!kSanitized) ::setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST(RandomGraphs, EndInResultsOrErrors) {
  const AddressLimit limit(rlim_t{8} << 30);
  const RunCounts counts = run_random_graphs(0, 1500, /*seconds=*/60, /*seconds_each=*/300);
  std::printf("%s\n", counts.to_string().c_str());
  EXPECT_GT(counts.ran, counts.made / 10);
  EXPECT_GT(counts.refused + counts.not_loaded, 0);
}

constexpr int64_t kHuge = int64_t{1} << 61;

std::string refusal(const std::function<void(Graph&)>& build) {
  try {
    const auto model = std::make_shared<Model>();
    build(model->add_entry("main"));
    Session session(load_bytes(file_of(*model)), {.threads = 1});
    NamedTensors inputs;
    for (const PlanPort& port : session.plan("main", {}).inputs)
      inputs.emplace(port.name, Tensor::zeros(port.type));
    session.run("main", inputs);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

void expect_refused(const std::function<void(Graph&)>& build) {
  const std::string message = refusal(build);
  EXPECT_NE(message.find("the limit for one tensor"), std::string::npos) << message;
}

// The sizes overflow to a few bytes of scratch memory beside a size of zero.
TEST(HugeSizesBesideZeros, AreRefused) {
  expect_refused([](Graph& g) {
    const Value q = g.add_input("q", {DType::f64, {0, 1, 1, 8}}),
                k = g.add_input("k", {DType::f64, {0, kHuge, 1, 8}});
    g.add_output("y", attention(q, k, k));
  });
  expect_refused([](Graph& g) {
    g.add_output("y", index_add(g.add_input("x", {DType::f32, {kHuge, 0}}), 0,
                                g.add_input("i", {DType::i64, {3}}), g.add_input("s", {DType::f32, {3, 0}})));
  });
  expect_refused([](Graph& g) {
    g.add_output("y", topk(g.add_input("x", {DType::f32, {0, kHuge}}), 1, 1).values);
  });
  expect_refused([](Graph& g) {
    g.add_output("y", cross_entropy(g.add_input("x", {DType::f32, {kHuge, 0}}),
                                    g.add_input("t", {DType::i64, {kHuge}})));
  });
}

// Each tensor is within the limit, but together or concurrently they need too much.
TEST(HugeSizesBesideZeros, AreRefusedTogether) {
  const int64_t large = int64_t{1} << 50;
  const auto says = [](const std::function<void(Graph&)>& build, const char* part) {
    const std::string message = refusal(build);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(
      [&](Graph& g) {
        for (int i = 0; i < 20; ++i) g.add_input("x" + std::to_string(i), {DType::f64, {large << 3}});
        g.add_output("y", g.handle(g.inputs()[0]));
      },
      "together");
  says(  // a separate output: 2^20 heads, each with scratch for 2^50 keys of size zero
      [&](Graph& g) {
        const Value q = g.add_input("q", {DType::f64, {1, 1, 1 << 20, 0}}),
                    k = g.add_input("k", {DType::f64, {1, large >> 3, 1, 0}}),
                    v = g.add_input("v", {DType::f64, {1, large >> 3, 1, 1}});
        g.add_output("y", attention(q, k, v));
      },
      "scratch memory of node 'attention'");
}

// A result without elements is not computed, however many rows it has. A result with elements is.
TEST(HugeSizesBesideZeros, TakeNoTime) {
  const int64_t many = int64_t{1} << 52;
  EXPECT_EQ(refusal([&](Graph& g) {
              const Value x = g.add_input("x", {DType::f32, {many, 0}});
              g.add_output("sorted", sort(x, 1, false).values);
              g.add_output("sums", cumsum(x, 1));
              g.add_output("total", sum(x, {}));
              g.add_output("columns", mean(x, {0}));
              const Value rows = g.add_input("rows", {DType::f32, {3, 0, many}});
              g.add_output("middle", sum(rows, {0, 2}));
              g.add_output("outer", sum(rows, {1, 2}));
              const Value around = g.add_input("around", {DType::f32, {many, 3, 0}});
              g.add_output("around.sum", sum(around, {0, 2}));
              g.add_output("around.var", var(around, {0, 2}));
              g.add_output("around.any", any(around, {0, 2}));
            }),
            "");
}

TEST(EmptySums, AreComputed) {
  const auto model = std::make_shared<Model>();
  Graph& g = model->add_entry("main");
  const Value x = g.add_input("x", {DType::f32, {3, 0}});
  g.add_output("sum", sum(x, {1}));
  g.add_output("prod", prod(x, {1}));
  g.add_output("all", all(x, {1}));
  g.add_output("fused", sum(relu(x * 2.0), {1}, true) + 1.0);  // one region of the optimizer
  Session session(model);
  const NamedTensors out = session.run("main", {{"x", Tensor::zeros({DType::f32, {3, 0}})}});
  EXPECT_EQ(out.at("sum").to_doubles(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(out.at("prod").to_doubles(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(out.at("fused").to_doubles(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(out.at("all").to_doubles(), (std::vector<double>{1, 1, 1}));
}

}  // namespace
}  // namespace genesis
