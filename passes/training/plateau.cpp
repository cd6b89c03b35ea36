#include "passes/training/plateau.h"

#include <limits>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::optim {
namespace {

constexpr double kMinChange = 1e-8;  // least change of the rate: PyTorch's `eps`

std::string name_of(const char* what) { return std::string("optimizer.plateau.") + what; }

void add_number(Model& model, const char* what, Tensor initial) {
  const TensorType type = initial.type();
  model.add_state({.name = name_of(what),
                   .type = type,
                   .role = StateRole::kOptimizer,
                   .trainable = false,
                   .initial = std::move(initial)});
}

Value number(Graph& graph, const char* what) { return graph.state(graph.model().find_state(name_of(what))); }

// Adds the updates of the four states by one evaluation loss.
void observe(Graph& graph, const PlateauLR& s) {
  const Value loss = cast(graph.add_input("loss", {DType::f32, {}}), DType::f64);
  const Value lr = number(graph, "lr"), best = number(graph, "best"), bad = number(graph, "bad"),
              cooldown = number(graph, "cooldown");
  const Value zero = scalar_like(bad, 0);
  const Value better = lt(loss, best * (1.0 - s.threshold)), cooling = gt(cooldown, zero);
  const Value counted = where(better, zero, bad + 1);
  const Value bad_now = where(cooling, zero, counted);
  const Value waited = gt(bad_now, scalar_like(bad_now, s.patience));
  const Value lower = maximum(lr * s.factor, s.min_lr);
  const Value worth = gt(lr - lower, scalar_like(lr, kMinChange));
  const Value next_lr = where(logical_and(waited, worth), lower, lr);
  const auto set = [&](const char* what, Value value) {
    graph.add_update(graph.model().find_state(name_of(what)), value);
  };
  set("lr", next_lr);
  set("best", where(better, loss, best));
  set("bad", where(waited, zero, bad_now));
  set("cooldown", where(waited, scalar_like(cooldown, s.cooldown), where(cooling, cooldown - 1, cooldown)));
  graph.add_output("lr", cast(next_lr, DType::f32));
}

}  // namespace

void add_plateau(Model& model, const PlateauLR& schedule, double lr) {
  Graph& graph = model.add_entry(kPlateauEntry);
  add_number(model, "lr", Tensor::scalar<double>(lr));
  add_number(model, "best", Tensor::scalar<double>(std::numeric_limits<double>::infinity()));
  add_number(model, "bad", Tensor::scalar<int64_t>(0));
  add_number(model, "cooldown", Tensor::scalar<int64_t>(0));
  observe(graph, schedule);
}

Value plateau_lr(Graph& graph) { return number(graph, "lr"); }

}  // namespace genesis::optim
