// Tests send and recv as ops: entry points that differ between ranks, on ranks that are threads of this process.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "executor/distributed/traffic.h"
#include "executor/session.h"
#include "passes/training/autodiff.h"
#include "schema/core/float16.h"
#include "schema/graph/text.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/error_of.h"

namespace genesis {
namespace {

std::string entry_of(int64_t rank) { return "rank" + std::to_string(rank); }

Mesh line(int64_t ranks) { return Mesh::parse("pipeline=" + std::to_string(ranks)); }

// Runs entry point "rank<r>" on rank r. Returns the results by rank.
std::vector<NamedTensors> run_entries(const std::shared_ptr<const Model>& model, const Mesh& mesh,
                                      const std::vector<NamedTensors>& inputs, SessionOptions options = {}) {
  std::vector<NamedTensors> results(static_cast<size_t>(mesh.ranks()));
  testing::run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    SessionOptions mine = options;
    mine.mesh = mesh;
    mine.rank = rank;
    mine.collectives = std::move(collectives);
    Session session(model, mine);
    for (int run = 0; run < 2; ++run)
      results[static_cast<size_t>(rank)] =
          session.run(entry_of(rank), inputs.empty() ? NamedTensors{} : inputs[static_cast<size_t>(rank)]);
  });
  return results;
}

std::string bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes())};
}

template <class T>
Tensor numbers(int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t whole = (i * 37 + 11) % 199 - 80;
    if constexpr (std::is_integral_v<T>)
      values[static_cast<size_t>(i)] = static_cast<T>(whole * 1234567890123);
    else
      values[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(whole) / 7);
  }
  return Tensor::copy_of({dtype_of<T>(), {count}}, values.data());
}

// Every rank receives from its predecessor and sends to its successor. The last rank sends back to the first.
std::shared_ptr<const Model> relay(int64_t ranks, const TensorType& type) {
  const auto model = std::make_shared<Model>();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Graph& graph = model->add_entry(entry_of(rank));
    const Value x = rank == 0 ? graph.add_input("x", type) : recv(graph, "pipeline", rank - 1, type);
    send(x, "pipeline", (rank + 1) % ranks);
    graph.add_output("y", rank == 0 ? recv(graph, "pipeline", ranks - 1, type) : x);
  }
  return model;
}

template <class T>
class SendReceive : public ::testing::Test {};
using Elements = ::testing::Types<float, bf16, int64_t>;
TYPED_TEST_SUITE(SendReceive, Elements);

TYPED_TEST(SendReceive, BringsTheSameBytes) {
  for (int64_t ranks = 2; ranks <= 8; ++ranks)
    for (const int64_t count : {0, 1, 5, 1023, 70001}) {
      const Tensor x = numbers<TypeParam>(count);
      const auto model = relay(ranks, x.type());
      std::vector<NamedTensors> inputs(static_cast<size_t>(ranks));
      inputs[0].emplace("x", x);
      for (const NamedTensors& result : run_entries(model, line(ranks), inputs))
        EXPECT_EQ(bytes_of(result.at("y")), bytes_of(x)) << ranks << " ranks, " << count << " elements";
    }
}

// Equal nodes are not merged, unread values are still received, and the order is the graph's.
TEST(SendReceive, KeepsWhatWasPromisedInOrder) {
  const auto model = std::make_shared<Model>();
  const TensorType type{DType::f32, {3}};
  Graph& first = model->add_entry(entry_of(0));
  const Value x = first.add_input("x", type);
  for (int i = 1; i <= 4; ++i) send(x * static_cast<double>(i), "pipeline", 1);
  first.add_output("back", recv(first, "pipeline", 1, type));
  Graph& second = model->add_entry(entry_of(1));
  const Value a = recv(second, "pipeline", 0, type), b = recv(second, "pipeline", 0, type);
  recv(second, "pipeline", 0, type);  // never read
  const Value d = recv(second, "pipeline", 0, type);
  send(d - a, "pipeline", 0);
  second.add_output("b", b);
  for (const bool optimize : {true, false}) {
    std::vector<NamedTensors> inputs(2);
    inputs[0].emplace("x", Tensor::of<float>({3}, {1, 2, 3}));
    const auto results = run_entries(model, line(2), inputs, {.optimize = optimize});
    EXPECT_EQ(results[0].at("back").to_doubles(), (std::vector<double>{3, 6, 9}));
    EXPECT_EQ(results[1].at("b").to_doubles(), (std::vector<double>{2, 4, 6}));
  }
}

// loss = sum(tanh(tanh(x * v) * w)), with the second half on another rank.
TEST(SendReceive, DifferentiatesAcrossRanks) {
  const TensorType type{DType::f32, {5}};
  const auto model = std::make_shared<Model>();
  Graph& first = model->add_entry(entry_of(0));
  const Value v = first.add_input("v", type), x = first.add_input("x", type);
  const Value token = send(tanh(x * v), "pipeline", 1);
  first.add_output("gradient", passes::gradients(first, sum(token), {v})[0]);
  Graph& second = model->add_entry(entry_of(1));
  const Value w = second.add_input("w", type), start = start_token(second);
  const Value loss = sum(tanh(recv(start, "pipeline", 0, type) * w));
  second.add_output("gradient", passes::gradients(second, loss, {w, start})[0]);
  Graph& alone = model->add_entry("alone");
  const Value v1 = alone.add_input("v", type), w1 = alone.add_input("w", type),
              x1 = alone.add_input("x", type);
  const std::vector<Value> both = passes::gradients(alone, sum(tanh(tanh(x1 * v1) * w1)), {v1, w1});
  alone.add_output("v", both[0]);
  alone.add_output("w", both[1]);
  const Tensor xs = Tensor::of<float>({5}, {0.1f, -2, 3, 0.5f, -0.7f}),
               vs = Tensor::of<float>({5}, {1, 2, -1, 0.3f, 2}),
               ws = Tensor::of<float>({5}, {-1, 0.5f, 0.25f, 2, 1});
  const auto results = run_entries(model, line(2), {{{"v", vs}, {"x", xs}}, {{"w", ws}}});
  Session session(model);
  const NamedTensors expected = session.run("alone", {{"v", vs}, {"w", ws}, {"x", xs}});
  EXPECT_EQ(results[0].at("gradient").to_doubles(), expected.at("v").to_doubles());
  EXPECT_EQ(results[1].at("gradient").to_doubles(), expected.at("w").to_doubles());
}

TEST(SendReceive, GoesThroughText) {
  const auto model = relay(2, {DType::bf16, {4, 8}});
  const std::string text = to_text(*model);
  EXPECT_NE(text.find("recv("), std::string::npos) << text;
  EXPECT_EQ(to_text(*parse_text(text)), text);
}

TEST(SendReceive, CountsWhatIsSent) {
  const auto model = relay(2, {DType::f32, {1000}});
  for (const auto& [rank, calls, bytes] : {std::tuple{0, 2, 4000}, {1, 2, 4000}}) {
    Session session(model, {.mesh = line(2), .rank = rank});
    const auto traffic = traffic_of(session.plan(entry_of(rank), {}), line(2));
    ASSERT_EQ(traffic.size(), 1u);
    EXPECT_EQ(traffic[0].calls, calls);
    EXPECT_EQ(traffic[0].bytes, bytes);
  }
}

TEST(SendReceive, RefusesPeersThatAreNotThere) {
  const auto error = [](int64_t peer, const char* mesh) {
    return testing::error_of([&] {
      const auto model = std::make_shared<Model>();
      Graph& graph = model->add_entry("main");
      send(graph.add_input("x", {DType::f32, {2}}), "pipeline", peer);
      Session session(model, {.mesh = Mesh::parse(mesh)});
      session.plan("main", {});
    });
  };
  EXPECT_NE(error(2, "pipeline=2").find("the mesh (pipeline=2) has places 0 to 1 there"), std::string::npos)
      << error(2, "pipeline=2");
  EXPECT_NE(error(0, "pipeline=2").find("cannot wait for itself"), std::string::npos);
  EXPECT_NE(error(1, "data=2").find("give a mesh with pipeline=2 or more"), std::string::npos);
  EXPECT_NE(error(-1, "pipeline=2").find("places are counted from 0, got -1"), std::string::npos);
}

TEST(SendReceive, RefusesWhatIsNoToken) {
  Model model;
  Graph& graph = model.add_entry("main");
  const Value x = graph.add_input("x", {DType::f32, {2}});
  EXPECT_NE(testing::error_of([&] {
              recv(x, "pipeline", 0, {DType::f32, {2}});
            }).find("comes after a token, f32[0]"),
            std::string::npos);
  EXPECT_NE(testing::error_of([&] { send(x, "", 0); }).find("needs the name of an axis"), std::string::npos);
}

}  // namespace
}  // namespace genesis
