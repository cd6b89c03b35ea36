#include <map>

#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/graph/model.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::passes {
namespace {

// --- masks

enum class MaskKind { kOther, kCausal, kNone };

// Says what a constant mask [.., queries, keys] hides, from its numbers: 1 is visible, 0 hidden.
MaskKind kind_of(const std::vector<bool>& visible, int64_t queries, int64_t keys) {
  bool is_causal = queries == keys, is_none = true;
  for (size_t at = 0; at < visible.size() && (is_causal || is_none); ++at) {
    const int64_t key = static_cast<int64_t>(at) % keys, query = static_cast<int64_t>(at) / keys % queries;
    is_none = is_none && visible[at];
    is_causal = is_causal && visible[at] == (key <= query);
  }
  return is_none ? MaskKind::kNone : is_causal ? MaskKind::kCausal : MaskKind::kOther;
}

// Returns which scores a mask leaves; nothing if it adds other numbers than 0 and what hides.
std::optional<std::vector<bool>> visible_scores(const Tensor& mask) {
  constexpr double kHides = -1e4;  // exporters write -inf or the least number of a dtype
  std::vector<bool> visible;
  for (const double number : mask.to_doubles()) {
    if (is_float(mask.dtype()) && number != 0 && !(number <= kHides)) return std::nullopt;
    visible.push_back(is_float(mask.dtype()) ? number == 0 : number != 0);
  }
  return visible;
}

class OperandFuser {
 public:
  explicit OperandFuser(const Graph& graph) : graph_(graph) {}

  Replacement visit(Rewriter& rewriter, const Node& node) {
    auto attention = match<ops::Attention>(node);
    if (!attention || attention->packed()) return std::nullopt;
    ops::Attention op = attention.attributes;
    std::vector<ValueId> inputs = node.inputs;
    const bool has_mask = take_mask(op, inputs), has_heads = take_heads(op, inputs);
    if (!has_mask && !has_heads) return std::nullopt;
    return emit_node(op, rewriter.map(inputs));
  }

 private:
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }

  // A constant mask that hides nothing, or the keys behind each query, is left out.
  bool take_mask(ops::Attention& op, std::vector<ValueId>& inputs) {
    if (!op.has_mask || op.causal || op.has_key_length || op.has_key_start) return false;
    const MaskKind kind = kind_of_mask(inputs[3]);
    if (kind == MaskKind::kOther) return false;
    const int time = op.layout == AttentionLayout::kBTHD ? 1 : 2;
    if (kind == MaskKind::kCausal && !(shape(inputs[0])[time] == shape(inputs[1])[time])) return false;
    op.causal = kind == MaskKind::kCausal, op.has_mask = false;
    inputs.erase(inputs.begin() + 3);
    return true;
  }

  MaskKind kind_of_mask(ValueId mask) {
    while (const auto expand = match<ops::Expand>(graph_, mask)) mask = expand.input(0);
    const ValueInfo& info = graph_.value(mask);
    const Shape& s = info.type.shape;
    if (info.kind != ValueKind::kConstant || s.rank() < 2) return MaskKind::kOther;
    const auto [place, is_new] = kinds_.emplace(info.index, MaskKind::kOther);
    if (!is_new) return place->second;
    const Tensor& tensor = graph_.model().tensors()[static_cast<size_t>(info.index)].tensor;
    if (const auto visible = visible_scores(tensor))
      place->second = kind_of(*visible, s[s.rank() - 2].value(), s[s.rank() - 1].value());
    return place->second;
  }

  // reshape(expand(reshape(k))) repeats each head of k [batch, heads, time, size]; attention reads the heads themselves.
  std::optional<ValueId> not_repeated(ValueId value) const {
    const auto joined = match<ops::Reshape>(graph_, value);
    const auto expand = joined ? match<ops::Expand>(graph_, joined.input(0)) : Matched<ops::Expand>();
    const auto apart = expand ? match<ops::Reshape>(graph_, expand.input(0)) : Matched<ops::Reshape>();
    if (!apart) return std::nullopt;
    const Shape &heads = shape(apart.input(0)), &five = shape(expand.input(0)),
                &many = shape(joined.input(0)), &all = shape(value);
    if (heads.rank() != 4 || five.rank() != 5 || many.rank() != 5 || all.rank() != 4) return std::nullopt;
    const Shape repeated{heads[0], heads[1], many[2], heads[2], heads[3]};
    const Shape one{heads[0], heads[1], 1, heads[2], heads[3]};
    const Shape joined_shape{heads[0], heads[1] * many[2], heads[2], heads[3]};
    if (!(five == one) || !(many == repeated) || !(all == joined_shape)) return std::nullopt;
    return apart.input(0);
  }

  bool take_heads(const ops::Attention& op, std::vector<ValueId>& inputs) const {
    if (op.layout != AttentionLayout::kBHTD || !(shape(inputs[0])[1] == shape(inputs[1])[1])) return false;
    const auto k = not_repeated(inputs[1]), v = not_repeated(inputs[2]);
    if (!k || !v || !(shape(*k)[1] == shape(*v)[1])) return false;
    inputs[1] = *k, inputs[2] = *v;
    return true;
  }

  const Graph& graph_;
  std::map<int32_t, MaskKind> kinds_;  // by constant
};

}  // namespace

Graph fuse_attention_operands(const Graph& graph, const PassContext& context) {
  OperandFuser fuser(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return fuser.visit(rewriter, node); },
      context.target);
}

}  // namespace genesis::passes
