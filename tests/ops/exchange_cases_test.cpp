// Tests the exchanges between ranks: on two ranks, which are threads of this process, and on one rank, where values pass unchanged,
// as cases of the harness. tests/distributed has runs over MPI and NCCL.
#include <cmath>

#include "schema/core/error.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/collective/point_to_point.h"
#include "schema/ops/elementwise/cast.h"
#include "tests/distributed/thread_ranks.h"
#include "tests/kernel_runs.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

constexpr int64_t kRanks = 2;

// Returns x of a rank: small integers, which every dtype holds exactly.
double element_of(int64_t rank, int64_t i) { return static_cast<double>((i * 7 + rank * 5) % 11 - 4); }

struct Exchanged {
  std::string name;
  std::function<Value(Graph&, Value x, int64_t rank)> build;
  std::function<double(int64_t rank, int64_t i, int64_t count)> element;  // x has `count` elements
  int64_t results_each = 1, per = 1;  // the result has count * results_each / per elements
  bool is_for_integers = true;
};

const std::vector<Exchanged> kExchanges = {
    {"sum", [](Graph&, Value x, int64_t) { return all_reduce(x, "data"); },
     [](int64_t, int64_t i, int64_t) { return element_of(0, i) + element_of(1, i); }},
    {"mean", [](Graph&, Value x, int64_t) { return all_reduce(x, "data", RankReduction::kMean); },
     [](int64_t, int64_t i, int64_t) { return (element_of(0, i) + element_of(1, i)) / 2; }, 1, 1, false},
    {"max", [](Graph&, Value x, int64_t) { return all_reduce(x, "data", RankReduction::kMax); },
     [](int64_t, int64_t i, int64_t) { return std::max(element_of(0, i), element_of(1, i)); }},
    {"gather", [](Graph&, Value x, int64_t) { return all_gather(x, "data", kRanks); },
     [](int64_t, int64_t i, int64_t count) { return element_of(i / count, i % count); }, kRanks},
    {"scatter", [](Graph&, Value x, int64_t) { return reduce_scatter(x, "data", kRanks); },
     [](int64_t rank, int64_t i, int64_t count) {
       const int64_t at = rank * count / kRanks + i;
       return element_of(0, at) + element_of(1, at);
     },
     1, kRanks},
    {"to_all", [](Graph&, Value x, int64_t) { return all_to_all(x, "data", kRanks); },
     [](int64_t rank, int64_t i, int64_t count) {
       const int64_t shard = count / kRanks;
       return element_of(i / shard, rank * shard + i % shard);
     }},
    {"broadcast", [](Graph&, Value x, int64_t) { return broadcast(x, "data", 1); },
     [](int64_t, int64_t i, int64_t) { return element_of(1, i); }},
    {"swap",
     [](Graph& graph, Value x, int64_t rank) {
       if (rank == 0) send(x, "data", 1);
       const Value received = recv(graph, "data", 1 - rank, x.type());
       if (rank == 1) send(x, "data", 0);
       return received;
     },
     [](int64_t rank, int64_t i, int64_t) { return element_of(1 - rank, i); }},
};

Tensor numbers(DType dtype, const std::vector<int64_t>& sizes, int64_t rank) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized({dtype, Shape::of(sizes)}, &data);
  dispatch(dtype, [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < tensor.numel(); ++i)
      reinterpret_cast<T*>(data)[i] = static_cast<T>(static_cast<float>(element_of(rank, i)));
  });
  return tensor;
}

void check_on_two_ranks(const Exchanged& exchanged, DType dtype, const std::vector<int64_t>& sizes) {
  SCOPED_TRACE(exchanged.name + " of " + std::string(name_of(dtype)));
  const Mesh mesh = Mesh::parse("data=2");
  std::vector<std::vector<double>> results(kRanks);
  run_ranks(mesh, [&](int64_t rank, std::shared_ptr<Collectives> collectives) {
    const auto model = std::make_shared<Model>();
    Graph& graph = model->add_entry("main");
    const Tensor x = numbers(dtype, sizes, rank);
    graph.add_output("y", exchanged.build(graph, graph.add_input("x", x.type()), rank));
    SessionOptions options;
    options.mesh = mesh;
    options.rank = rank;
    options.collectives = std::move(collectives);
    run_by_first_implementations(model, {{"x", x}}, options,
                                 [&](const NamedTensors& got, const std::string&) {
                                   results[static_cast<size_t>(rank)] = got.at("y").to_doubles();
                                 });
  });
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    std::vector<double> expected;
    for (int64_t i = 0; i < count * exchanged.results_each / exchanged.per; ++i)
      expected.push_back(exchanged.element(rank, i, count));
    EXPECT_EQ(results[static_cast<size_t>(rank)], expected) << "rank " << rank;
  }
}

TEST(ExchangeCases, OfTwoRanks) {
  for (const Exchanged& exchanged : kExchanges)
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64})
      for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{6, 3}, {0, 3}})
        if (exchanged.is_for_integers || is_float(dtype)) check_on_two_ranks(exchanged, dtype, sizes);
}

TEST(ExchangeCases, OfOneRank) {
  const std::pair<const char*, std::function<Value(Value)>> exchanges[] = {
      {"all_reduce", [](Value x) { return all_reduce(x, "data"); }},
      {"all_gather", [](Value x) { return all_gather(x, "data", 1); }},
      {"reduce_scatter", [](Value x) { return reduce_scatter(x, "data", 1); }},
      {"all_to_all", [](Value x) { return all_to_all(x, "data", 1); }},
      {"broadcast", [](Value x) { return broadcast(x, "data"); }}};
  for (const auto& [name, build] : exchanges)
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5, 3}, {0, 3}})
      check({.name = std::string(name) + "_alone",
             .inputs = {real(shape)},
             .build = [&](const Inputs& x) { return Outputs{build(x[0])}; },
             .reference = [](const Refs& x) { return x; },
             .gradient = std::string(name) != "broadcast"});
}

}  // namespace
}  // namespace genesis::testing
