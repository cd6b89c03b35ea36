// Finds the routers of mixtures: find_router() of expert_patterns.h.
#include <cmath>
#include <numeric>

#include "passes/fusion/expert_patterns.h"
#include "schema/graph/model.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::passes {
namespace {

class RouterMatch {
 public:
  RouterMatch(const Graph& graph, const Uses& uses, const Node& topk)
      : graph_(graph), uses_(uses), topk_(topk) {}

  std::optional<RouterNodes> find() {
    const auto topk = match<ops::TopK>(topk_);
    if (!topk || !chooses_last(topk) || graph_.type(topk_.inputs[0]).dtype != DType::f32) return std::nullopt;
    router_.op.k = topk->k;
    router_.sort = reader_of<ops::SortGroups>(topk_.outputs[1]);
    router_.factors = topk_.outputs[0];
    const ValueId all = before_groups(topk_.inputs[0]);
    if (!router_.sort || !find_scores(all)) return std::nullopt;
    if (router_.op.groups > 1 && router_.op.scores == RouteScores::kSoftmaxOfChosen) return std::nullopt;
    if (!(last_size(graph_.type(topk_.inputs[0])) == Dim(match<ops::SortGroups>(*router_.sort)->groups)))
      return std::nullopt;
    if (uses_.count(topk_.outputs[1]) != (has_bias() ? 2 : 1)) return std::nullopt;
    find_normalization();
    find_factor();
    return router_;
  }

 private:
  bool has_bias() const { return router_.inputs.size() > 1; }

  // Returns the first node of this op that reads the value; null if there is none.
  template <class Op>
  const Node* reader_of(ValueId value) const {
    for (const NodeId id : uses_.readers(value))
      if (const Node& node = graph_.node(id); is<Op>(node)) return &node;
    return nullptr;
  }

  bool chooses_last(const Matched<ops::TopK>& topk) const {
    return topk->largest && is_last_axis(graph_.type(topk.input(0)), topk->axis);
  }

  // Returns what the choice of the best groups reads, of the same type, and sets the attributes of groups; `wanted` itself if it is
  // no such choice: where(condition, scores of groups, -inf), reshaped.
  ValueId before_groups(ValueId wanted) {
    const auto kept = match<ops::Where>(graph_, behind_reshapes(graph_, wanted));
    if (!kept) return wanted;
    const ValueId grouped = kept.input(1), scores = behind_reshapes(graph_, grouped);
    const TensorType& type = graph_.type(grouped);
    const auto least = uniform_value(graph_, kept.input(2));
    if (!least || !std::isinf(*least) || *least > 0 || type.shape.rank() < 2 || !type.shape.is_constant() ||
        !(graph_.type(kept.node->outputs[0]) == type) || !(graph_.type(scores) == graph_.type(wanted)))
      return wanted;
    return find_groups(kept.input(0), grouped) ? scores : wanted;
  }

  // `condition` [..., groups, 1] says which groups of scores [..., groups, each] are among the best ones.
  bool find_groups(ValueId condition, ValueId grouped) {
    const Shape& shape = graph_.type(grouped).shape;
    const int64_t each = shape[shape.rank() - 1].value(), groups = shape[shape.rank() - 2].value();
    if (!ends_with(graph_.type(condition), groups, 1)) return false;
    const auto any = match<ops::Any>(graph_, behind_reshapes(graph_, condition));
    if (!any || any->axes.size() != 1 || !is_last_axis(graph_.type(any.input(0)), any->axes[0])) return false;
    const auto equal = match<ops::Eq>(graph_, any.input(0));
    if (!equal) return false;
    for (const auto& [best, numbers] : either_way(*equal.node))
      if (is_numbers(numbers, groups) && find_best(best, grouped, groups, each)) return true;
    return false;
  }

  // `best` [..., 1, chosen] has the numbers of the groups with the greatest sums of their best scores.
  bool find_best(ValueId best, ValueId grouped, int64_t groups, int64_t each) {
    const ValueId indices = behind_reshapes(graph_, best);
    const Node* choice = producer(graph_, indices);
    const auto topk =
        choice && graph_.value(indices).index == 1 ? match<ops::TopK>(*choice) : Matched<ops::TopK>();
    if (!topk || !chooses_last(topk) || !(last_size(graph_.type(topk.input(0))) == Dim(groups)) ||
        !ends_with(graph_.type(best), 1, topk->k))
      return false;
    const ValueId sums = behind_reshapes(graph_, topk.input(0));
    const auto sum = match<ops::Sum>(graph_, sums);
    if (sum && (sum->axes.size() != 1 || !is_last_axis(graph_.type(sum.input(0)), sum->axes[0])))
      return false;
    const auto of_group = match<ops::TopK>(graph_, sum ? sum.input(0) : sums);
    if (!of_group || !chooses_last(of_group) || (!sum && of_group->k != 1) ||
        !(last_size(graph_.type(of_group.input(0))) == Dim(each)) ||
        behind_reshapes(graph_, of_group.input(0)) != behind_reshapes(graph_, grouped))
      return false;
    router_.op.groups = groups, router_.op.chosen_groups = topk->k, router_.op.best_of_group = of_group->k;
    return true;
  }

  static bool ends_with(const TensorType& type, int64_t before_last, int64_t last) {
    return type.shape.rank() >= 2 && type.shape[type.shape.rank() - 2] == Dim(before_last) &&
           last_size(type) == Dim(last);
  }

  // Returns true for a column of the numbers 0, 1, ..., [groups, 1].
  bool is_numbers(ValueId value, int64_t groups) const {
    const TensorType& type = graph_.type(value);
    if (!ends_with(type, groups, 1) || !(type.shape.numel() == Dim(groups))) return false;
    const ValueId inner = behind_reshapes(graph_, value);
    if (const auto range = match<ops::Arange>(graph_, inner))
      return range->start.as_double() == 0 && range->step.as_double() == 1;
    const ValueInfo& info = graph_.value(inner);
    if (info.kind != ValueKind::kConstant) return false;
    std::vector<double> counted(static_cast<size_t>(groups));
    std::iota(counted.begin(), counted.end(), 0.0);
    return graph_.model().tensors()[static_cast<size_t>(info.index)].tensor.to_doubles() == counted;
  }

  bool find_scores(ValueId wanted) {
    if (const auto sum = match<ops::Add>(graph_, wanted)) return find_biased(*sum.node);
    if (const auto softmax = match<ops::Softmax>(graph_, wanted);
        softmax && is_last_axis(graph_.type(wanted), softmax->axis)) {
      router_.inputs = {softmax.input(0)};
      return true;
    }
    if (const auto sigmoid = match<ops::Sigmoid>(graph_, wanted)) {
      router_.op.scores = RouteScores::kSigmoid;
      router_.inputs = {sigmoid.input(0)};
      return true;
    }
    const Node* softmax =
        uses_.single(topk_.outputs[0]) ? reader_of<ops::Softmax>(topk_.outputs[0]) : nullptr;
    if (!softmax || !is_last_axis(graph_.type(topk_.outputs[0]), match<ops::Softmax>(*softmax)->axis))
      return false;
    router_.op.scores = RouteScores::kSoftmaxOfChosen;
    router_.inputs = {wanted};
    router_.factors = softmax->outputs[0];
    return true;
  }

  // Finds scores plus a bias, where factors are the scores at the chosen places.
  bool find_biased(const Node& sum) {
    const TensorType& type = graph_.type(sum.outputs[0]);
    for (const auto& [scores, bias] : either_way(sum)) {
      const TensorType wanted{DType::f32, {type.shape[type.shape.rank() - 1]}};
      if (!(graph_.type(bias) == wanted) || match<ops::Add>(graph_, scores) || !find_scores(scores)) continue;
      const Node* gather = reader_of<ops::Gather>(topk_.outputs[1]);
      if (!gather || gather->inputs[0] != scores || uses_.count(topk_.outputs[0]) > 0 ||
          !is_last_axis(type, match<ops::Gather>(*gather)->axis))
        return false;
      router_.factors = gather->outputs[0];
      router_.inputs.push_back(bias);
      return router_.op.scores != RouteScores::kSoftmaxOfChosen;
    }
    return false;
  }

  // Factors divided by their sum, or by that and a small number.
  void find_normalization() {
    const Node* division = reader_of<ops::Div>(router_.factors);
    if (!division || division->inputs[0] != router_.factors || uses_.count(router_.factors) != 2) return;
    ValueId total = division->inputs[1];
    double least = 0;
    if (const auto more = match_sole<ops::Add>(graph_, uses_, total))
      for (const auto& [sum, number] : either_way(*more.node))
        if (const auto value = uniform_value(graph_, number); value && least == 0)
          least = *value, total = sum;
    const auto sum = match_sole<ops::Sum>(graph_, uses_, total);
    if (!sum || sum.input(0) != router_.factors || !sum->keep_dims || sum->axes.size() != 1 ||
        !is_last_axis(graph_.type(router_.factors), sum->axes[0]) ||
        !(graph_.type(division->outputs[0]) == graph_.type(router_.factors)))
      return;
    router_.op.normalized = true;
    router_.op.least_sum = least;
    router_.factors = division->outputs[0];
  }

  void find_factor() {
    const Node* product = uses_.single(router_.factors) ? reader_of<ops::Mul>(router_.factors) : nullptr;
    if (!product) return;
    for (const auto& [factors, number] : either_way(*product))
      if (const auto value = uniform_value(graph_, number);
          value && factors == router_.factors && graph_.type(product->outputs[0]) == graph_.type(factors)) {
        router_.op.factor = *value;
        router_.factors = product->outputs[0];
        return;
      }
  }

  const Graph& graph_;
  const Uses& uses_;
  const Node& topk_;
  RouterNodes router_;
};

}  // namespace

std::optional<RouterNodes> find_router(const Graph& graph, const Uses& uses, const Node& topk) {
  return RouterMatch(graph, uses, topk).find();
}

}  // namespace genesis::passes
