#include "tests/passes/large_graphs.h"

#include <cmath>
#include <functional>

#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::testing {
namespace {

using Values = std::vector<Value>;

// Returns a model with an input `x` of f32[8,8] and the output `y` that `body` computes from it.
std::unique_ptr<Model> model_of(const std::function<Value(Value x)>& body) {
  auto model = std::make_unique<Model>();
  Graph& graph = model->add_entry("main");
  const Value x = graph.add_input("x", {DType::f32, {8, 8}});
  graph.add_output("y", body(x));
  return model;
}

Value unary(Value x, int64_t i) {
  static constexpr Value (*kOps[])(Value) = {tanh, sigmoid, sin, cos, exp, atan, erf};
  return kOps[i % std::size(kOps)](x);
}

Value binary(Value a, Value b, int64_t i) {
  static constexpr Value (*kOps[])(Value, Value) = {add, mul, sub, maximum};
  return kOps[i % std::size(kOps)](a, b);
}

// Pseudorandom numbers that are the same everywhere.
class Random {
 public:
  int64_t below(int64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_ = 1;
};

// Adds in pairs.
Value sum_of(Values values) {
  while (values.size() > 1) {
    Values sums;
    for (size_t i = 0; i + 1 < values.size(); i += 2) sums.push_back(values[i] + values[i + 1]);
    if (values.size() % 2 == 1) sums.push_back(values.back());
    values = std::move(sums);
  }
  return values[0];
}

std::unique_ptr<Model> make_chain(int64_t nodes) {
  return model_of([&](Value x) {
    for (int64_t i = 0; i < nodes; ++i) x = unary(x, i);
    return x;
  });
}

// Every third node is one that no region takes.
std::unique_ptr<Model> make_broken_chain(int64_t nodes) {
  return model_of([&](Value x) {
    const Value w = x;
    for (int64_t i = 0; i < nodes; i += 3) x = matmul(unary(unary(x, i), i + 1), w);
    return x;
  });
}

std::unique_ptr<Model> make_fan_out(int64_t nodes) {
  return model_of([&](Value x) {
    Values leaves;
    for (int64_t i = 0; i < nodes / 3; ++i) leaves.push_back(x * (1.0 + 1e-6 * static_cast<double>(i)));
    return sum_of(leaves);
  });
}

// Like fan_out, with nodes in between that no region takes, and one node that reads them all.
std::unique_ptr<Model> make_wide_concat(int64_t nodes) {
  return model_of([&](Value x) {
    Values leaves;
    for (int64_t i = 0; i < nodes / 3; ++i)
      leaves.push_back(matmul(x, unary(x * (1.0 + 1e-6 * static_cast<double>(i)), i)));
    return concat(leaves, 0);
  });
}

// Nodes all along a chain read one value.
std::unique_ptr<Model> make_shared_operand(int64_t nodes) {
  return model_of([&](Value x) {
    const Value shared = tanh(x);
    for (int64_t i = 0; i < nodes / 3; ++i) x = matmul(unary(x, i) + shared, shared);
    return x;
  });
}

std::unique_ptr<Model> make_ladder(int64_t nodes) {
  return model_of([&](Value x) {
    Value a = x, b = tanh(x);
    for (int64_t i = 0; i < nodes / 2; ++i) {
      const Value next = binary(a, b, i);
      b = binary(b, a, i + 1);
      a = next;
    }
    return a + b;
  });
}

// A ladder whose rungs are products: two long paths that meet again and again.
std::unique_ptr<Model> make_broken_ladder(int64_t nodes) {
  return model_of([&](Value x) {
    Value a = x, b = tanh(x);
    for (int64_t i = 0; i < nodes / 4; ++i) {
      const Value product = matmul(a, b);
      a = unary(binary(a, product, i), i);
      b = binary(b, product, i + 1);
    }
    return a + b;
  });
}

std::unique_ptr<Model> make_tree(int64_t nodes) {
  return model_of([&](Value x) {
    Values level = {x};
    while (static_cast<int64_t>(level.size()) < nodes / 4) {
      Values next;
      for (const Value value : level) next.push_back(tanh(value)), next.push_back(sigmoid(value));
      level = next;
    }
    return sum_of(level);
  });
}

std::unique_ptr<Model> make_residual(int64_t nodes) {
  return model_of([&](Value x) {
    const Value w = x;
    for (int64_t i = 0; i < nodes / 3; ++i) x = x + matmul(unary(x, i), w);
    return x;
  });
}

std::unique_ptr<Model> make_grid(int64_t nodes) {
  return model_of([&](Value x) {
    const auto side = static_cast<size_t>(std::sqrt(static_cast<double>(nodes)));
    Values row(side, x);
    for (size_t i = 0; i < side; ++i)
      for (size_t k = 0; k < side; ++k)
        row[k] = binary(row[k], row[k == 0 ? side - 1 : k - 1], static_cast<int64_t>(i + k));
    return sum_of(row);
  });
}

std::unique_ptr<Model> make_many_chains(int64_t nodes) {
  constexpr int64_t kLength = 20;
  auto model = std::make_unique<Model>();
  Graph& graph = model->add_entry("main");
  const Value x = graph.add_input("x", {DType::f32, {8, 8}});
  for (int64_t chain = 0; chain < nodes / kLength; ++chain) {
    Value y = x * (1.0 + 1e-6 * static_cast<double>(chain));
    for (int64_t i = 2; i < kLength; ++i) y = i % 6 == 5 ? matmul(y, x) : unary(y, i);
    graph.add_output("y" + std::to_string(chain), y);
  }
  return model;
}

// Chains whose nodes alternate, so that all of them are live at once.
std::unique_ptr<Model> make_woven_chains(int64_t nodes) {
  constexpr size_t kChains = 1000;
  return model_of([&](Value x) {
    Values chains;
    for (size_t i = 0; i < kChains; ++i) chains.push_back(x * (1.0 + 1e-6 * static_cast<double>(i)));
    for (int64_t i = 2 * kChains; i < nodes - 1000; i += kChains)
      for (Value& chain : chains) chain = i / kChains % 4 == 3 ? matmul(chain, x) : unary(chain, i / kChains);
    return sum_of(chains);
  });
}

std::unique_ptr<Model> random_graph(int64_t nodes, int64_t reach, bool products) {
  return model_of([&](Value x) {
    Random random;
    Values values = {x, tanh(x)};
    const auto any = [&] {
      const auto count = static_cast<int64_t>(values.size());
      return values[static_cast<size_t>(count - 1 - random.below(std::min(count, reach)))];
    };
    while (static_cast<int64_t>(values.size()) < nodes) {
      const int64_t kind = random.below(8);
      const Value a = any();
      values.push_back(kind == 0 && products ? matmul(a, any())
                       : kind < 5            ? binary(a, any(), kind)
                                             : unary(a, random.below(7)));
    }
    return sum_of({values.end() - 100, values.end()});
  });
}

std::unique_ptr<Model> make_random(int64_t nodes) { return random_graph(nodes, nodes, true); }
std::unique_ptr<Model> make_random_near(int64_t nodes) { return random_graph(nodes, 200, true); }
std::unique_ptr<Model> make_random_elementwise(int64_t nodes) { return random_graph(nodes, nodes, false); }

// Vectors of many lengths that live long, which leave gaps in the arena.
std::unique_ptr<Model> make_mixed_sizes(int64_t nodes) {
  return model_of([&](Value x) {
    Random random;
    Values values = {reshape(x, {64})};
    const auto any = [&] {
      const auto count = static_cast<int64_t>(values.size());
      return values[static_cast<size_t>(count - 1 - random.below(std::min<int64_t>(count, 100)))];
    };
    while (static_cast<int64_t>(values.size()) < nodes) {
      const Value a = any(), b = any();
      const int64_t length = a.dim(0).value() + b.dim(0).value();
      const int64_t kind = random.below(4);
      if (kind == 0 && length < 4000)
        values.push_back(concat({a, b}, 0));
      else if (kind <= 1)
        values.push_back(cumsum(slice(a, 0, 0, 1 + a.dim(0).value() / 2), 0));
      else
        values.push_back(unary(a, random.below(7)));
    }
    Values sums;
    for (size_t i = values.size() - 100; i < values.size(); ++i) sums.push_back(sum(values[i]));
    return sum_of(sums);
  });
}

// Softmax written as elementary ops, again and again.
std::unique_ptr<Model> make_rows(int64_t nodes) {
  return model_of([&](Value x) {
    for (int64_t i = 0; i < nodes / 5; ++i) {
      const Value powers = exp(x - max(x, {-1}, true));
      x = powers / sum(powers, {-1}, true);
    }
    return x;
  });
}

// Groups that end far from where they began: pairs of nodes that read each other's chain across the whole graph.
std::unique_ptr<Model> make_crossing(int64_t nodes) {
  return model_of([&](Value x) {
    Values forth = {x};
    for (int64_t i = 0; i < nodes / 3; ++i) forth.push_back(unary(forth.back(), i));
    Value y = matmul(forth.back(), x);
    for (size_t i = forth.size(); i-- > 1;) y = unary(y * forth[i], static_cast<int64_t>(i));
    return y;
  });
}

std::unique_ptr<Model> make_many_states(int64_t nodes) {
  auto model = std::make_unique<Model>();
  Graph& graph = model->add_entry("main");
  Value y = graph.add_input("x", {DType::f32, {8, 8}});
  for (int64_t i = 0; i < nodes / 2; ++i) {
    const int32_t index = model->add_state({.name = "counts." + std::to_string(i),
                                            .type = {DType::f32, {8, 8}},
                                            .role = StateRole::kBuffer,
                                            .initial = {}});
    const Value next = graph.state(index) + y;
    graph.add_update(index, next);
    if (i % 2 == 0) y = tanh(next);
  }
  graph.add_output("y", y);
  return model;
}

}  // namespace

const std::vector<LargeGraph>& large_graphs() {
  static const std::vector<LargeGraph> graphs = {
      {"chain", make_chain},
      {"broken_chain", make_broken_chain},
      {"fan_out", make_fan_out},
      {"wide_concat", make_wide_concat},
      {"shared_operand", make_shared_operand},
      {"ladder", make_ladder},
      {"broken_ladder", make_broken_ladder},
      {"tree", make_tree},
      {"residual", make_residual},
      {"grid", make_grid},
      {"many_chains", make_many_chains},
      {"woven_chains", make_woven_chains},
      {"random", make_random},
      {"random_near", make_random_near},
      {"random_elementwise", make_random_elementwise},
      {"mixed_sizes", make_mixed_sizes},
      {"rows", make_rows},
      {"crossing", make_crossing},
      {"many_states", make_many_states},
  };
  return graphs;
}

const LargeGraph& large_graph(const std::string& name) {
  for (const LargeGraph& graph : large_graphs())
    if (graph.name == name) return graph;
  fail("there is no large graph '{}'", name);
}

std::unique_ptr<Model> make_layers(int64_t nodes) {
  auto model = std::make_unique<Model>();
  Graph& graph = model->add_entry("loss");
  Value x = graph.add_input("x", {DType::f32, {8, 8}});
  for (int64_t i = 0; i < nodes / 4; ++i) {
    const int32_t weight = model->add_state({.name = "layers." + std::to_string(i) + ".weight",
                                             .type = {DType::f32, {8, 8}},
                                             .trainable = true,
                                             .initial = {}});
    x = x + tanh(linear(x, graph.state(weight)));
  }
  graph.add_output("loss", mean(x));
  return model;
}

}  // namespace genesis::testing
