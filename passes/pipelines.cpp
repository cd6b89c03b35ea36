#include "passes/pipelines.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "passes/core/match.h"
#include "passes/distribution/passes.h"
#include "passes/distribution/pipeline/split_stages.h"
#include "passes/fusion/elementwise/expand_formulas.h"
#include "passes/fusion/elementwise/fuse_elementwise.h"
#include "passes/fusion/passes.h"
#include "passes/grouping/passes.h"
#include "passes/memory/make_plan.h"
#include "passes/memory/passes.h"
#include "passes/precision/passes.h"
#include "passes/simplify/passes.h"
#include "schema/graph/model.h"
#include "schema/graph/near_names.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/batch_norm.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::passes {
namespace {

// --- conditions of passes: a pass is skipped where its condition does not hold

template <class... Ops>
bool has(const Graph& graph, const PassContext&) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return is<Ops...>(node); });
}

constexpr auto has_convolution =
    has<ops::Convolution, ops::ConvolutionTransposed, ops::ConvolutionWeightGradient>;

bool has_collectives(const Graph& graph, const PassContext&) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return node.op->info.collective; });
}

bool has_ranks(const Graph&, const PassContext& context) { return context.mesh.ranks() > 1; }

bool has_storage(const Graph&, const PassContext& context) {
  return context.storage && !context.storage->empty();
}

bool has_budget(const Graph&, const PassContext& context) { return context.memory_budget.has_value(); }

// ---

constexpr Pass kPreparation[] = {
    {"simplify", "first, so that patterns are not hidden by needless reshapes and transposes", simplify},
    {"cse", "patterns look for values with one reader: equal values must be one before they are counted", eliminate_common_subexpressions},
    {"fuse_rope", "its gradient needs positions only, not the halves and their products", fuse_rope, has<ops::Cos>},
    {"fuse_attention", "before fuse_linear, which would separate products with a shared matrix", fuse_attention, has<ops::Matmul>},
    {"fuse_attention_operands", "after fuse_attention; before autodiff, so that gradients are of the heads that there are", fuse_attention_operands, has<ops::Attention>},
    {"fuse_norms", "a norm's own gradient rule reads x once; the gradients of its separate ops read it many times", fuse_norms, has<ops::Mean>},
    {"fuse_batch_norm", "its gradient masks itself: neither the norm's result nor the masked gradient is written", fuse_batch_norm, has<ops::BatchNorm>},
    {"fuse_swiglu", "its gradient needs gate and up only, not the activation between them", fuse_swiglu, has<ops::Silu, ops::Sigmoid>},
    {"fuse_linear", "the bias's gradient is the same, and the next pass sees one kind of product", fuse_linear, has<ops::Matmul, ops::Linear>},
    {"fuse_linear_cross_entropy", "before autodiff, which would read the logits a second time", fuse_linear_cross_entropy, has<ops::CrossEntropy>},
    {"simplify", "again: attention in another layout leaves permutes that now meet their inverse", simplify},
    {"pack_attention", "after simplify: it recognizes one layout only; before autodiff, so that gradients are packed too", pack_attention, has<ops::Attention>},
    {"dce", "last: values without readers are not differentiated", eliminate_dead_code},
};

constexpr Pass kLowPrecision[] = {
    {"merge_projections", "weights are casts now, and nothing is differentiated yet", merge_projections, has<ops::Linear>},
};

constexpr Pass kInference[] = {
    {"expand_formulas", "first: every later pass sees the ops that a formula consists of", expand_formulas, has_formulas},
    {"split_stages", "early: it recognizes steps as they were written, and keeps the work of one stage", split_stages, has_ranks},
    {"fuse_linear_cross_entropy", "before partition, which shards it, so that no rank has logits of all classes", fuse_linear_cross_entropy, has<ops::CrossEntropy>},
    {"partition", "early: it recognizes layers as they were written, and later passes handle its exchanges with all others", partition, has_ranks},
    {"partition_experts", "after partition, which leaves experts alone; early for the same reason", partition_experts, has_ranks},
    {"decode_slices", "after partition, which shards weights without regard to their quantized form", decode_slices, has_storage},
    {"gather_weights", "early: every pass after it sees whole weights", gather_weights, has_storage},
    {"distribute", "early: with one rank it removes all exchanges, which patterns do not expect", distribute, has_collectives},
    {"use_weight_halves", "early: it recognizes casts and updates as they were written", use_weight_halves, has_storage},
    {"simplify", "first: binding has made sizes known, and every later pass sees less", simplify},
    {"fuse_rope", "before fold_constants, which makes numbers of its angles", fuse_rope, has<ops::Cos>},
    {"fold_constants", "values that depend on no input are computed once, at compile time", fold_constants},
    {"cse", "layers compute equal masks and positions; one of each is enough", eliminate_common_subexpressions},
    {"fuse_attention", "before fuse_linear, which would separate products with a shared matrix", fuse_attention, has<ops::Matmul>},
    {"fuse_attention_operands", "after fuse_attention, and after fold_constants, which makes numbers of masks", fuse_attention_operands, has<ops::Attention>},
    {"fuse_norms", "one pass over memory instead of seven", fuse_norms, has<ops::Mean>},
    {"fuse_swiglu", "before fuse_activation, so that the gate's silu goes here", fuse_swiglu, has<ops::Silu, ops::Sigmoid>},
    {"fuse_linear", "biases are added while the product is in registers", fuse_linear, has<ops::Matmul, ops::Linear>},
    {"fuse_linear_cross_entropy", "again: products by a transposed matrix are layers now", fuse_linear_cross_entropy, has<ops::CrossEntropy>},
    {"fuse_activation", "after fuse_linear: the activation comes after the bias", fuse_activation, has<ops::Linear>},
    {"fuse_convolution", "before fuse_elementwise, which would take batch norms and activations", fuse_convolution, has<ops::Convolution>},
    {"channels_last", "after fuse_convolution, whose epilogues it keeps; before simplify, which removes permutes that meet", channels_last, has_convolution},
    {"widen_sums", "after fuse_linear and fuse_norms, whose nodes it recognizes; before fuse_addend, which takes the sums", widen_sums, has<ops::RmsNorm, ops::LayerNorm>},
    {"simplify", "again: attention in another layout leaves permutes that now meet their inverse", simplify},
    {"fuse_cached_attention", "before pack_attention, whose packed operands it does not recognize", fuse_cached_attention, has<ops::Attention>},
    {"update_rows", "after fuse_cached_attention, whose updates of all rows it leaves alone", update_rows, has<ops::DynamicSlice>},
    {"one_row_starts", "after fuse_cached_attention, which compares starts", one_row_starts, has<ops::CachedAttention, ops::DynamicUpdateSlice>},
    {"pack_attention", "after simplify: it recognizes one layout only", pack_attention, has<ops::Attention>},
    {"merge_linear", "after the passes that change single layers: layers that differ only in weights become one step", merge_linear, has<ops::Linear>},
    {"fuse_addend", "after merge_linear, which takes plain layers; before fuse_elementwise, which would take the addition", fuse_addend, has<ops::Matmul, ops::Linear, ops::AllReduce>},
    {"pack_weights", "after fuse_addend, whose addends it keeps; before fuse_elementwise, which would take biases and activations", pack_weights, has<ops::Matmul, ops::Linear>},
    {"fuse_norm_linear", "after merge_linear: layers that are one step read their norm once", fuse_norm_linear, has<ops::Linear>},
    {"read_quantized", "after the passes that merge layers, which recognize layers as they were written", read_quantized, has<ops::Dequantize>},
    {"fuse_experts", "after read_quantized: it reads weights of any format; before fuse_elementwise, which would take the factors", fuse_experts, has<ops::GroupedMatmul>},
    {"fuse_formulas", "before fuse_elementwise, which fuses what formulas consist of", fuse_formulas, has_formulas},
    {"fuse_elementwise", "after every named pattern: it fuses the remaining elementwise ops", fuse_elementwise},
    {"dce", "values without readers are neither computed nor gathered", eliminate_dead_code},
    {"place_gathers", "last: the order of the nodes says when a weight is needed", place_gathers, has_storage},
};

constexpr Pass kTraining[] = {
    {"expand_formulas", "first: every later pass sees the ops that a formula consists of", expand_formulas, has_formulas},
    {"split_stages", "early: it recognizes steps as they were written, and keeps the work of one stage", split_stages, has_ranks},
    {"partition", "early: it recognizes layers as they were written, and later passes handle its exchanges with all others", partition, has_ranks},
    {"partition_experts", "after partition, which leaves experts alone; early for the same reason", partition_experts, has_ranks},
    {"decode_slices", "after partition, which shards weights without regard to their quantized form", decode_slices, has_storage},
    {"shard_sequence", "after partition, which adds the sums over ranks; early: it recognizes norms and residual sums as they were written", shard_sequence, has_ranks},
    {"shard_optimizer", "before distribute, which splits exchanges into buckets: here one node exchanges all gradients", shard_optimizer, has_ranks},
    {"gather_weights", "after shard_optimizer, whose updates read shards of weights", gather_weights, has_storage},
    {"distribute", "early: with one rank it removes all exchanges, which patterns do not expect", distribute, has_collectives},
    {"use_weight_halves", "early: it recognizes casts and updates as they were written", use_weight_halves, has_storage},
    {"simplify", "first: gradient rules leave expansions, casts and products with one", simplify},
    {"fold_constants", "values that depend on no input are computed once, at compile time", fold_constants},
    {"cse", "gradient rules compute values that the forward pass already has", eliminate_common_subexpressions},
    {"channels_last", "after cse: each value is permuted once; before fuse_elementwise, which would take what follows", channels_last, has_convolution},
    {"simplify", "again: permutes that a model has meet those of channels_last", simplify, has_convolution},
    {"fuse_linear", "biases are added while the product is in registers", fuse_linear, has<ops::Matmul, ops::Linear>},
    {"fuse_embedding_grad", "the head's gradient takes the embedding's rows: one table less, one pass less", fuse_embedding_grad, has<ops::EmbeddingGrad>},
    {"fuse_activation", "only where no gradient reads the pre-activation: frozen layers", fuse_activation, has<ops::Linear>},
    {"merge_linear", "layers that differ only in weights become one step if rows are few", merge_linear, has<ops::Linear>},
    {"dce", "gradients without readers are not computed, and no longer separate fused regions", eliminate_dead_code},
    {"recompute_outputs", "after dce: gradients without readers must not count as readers", recompute_outputs, has<ops::SwigluGrad, ops::RmsNormGrad, ops::LayerNormGrad, ops::BatchNormGrad>},
    {"fuse_gradient_sums", "before fuse_elementwise, which would take the addition", fuse_gradient_sums, has<ops::BatchNormGrad>},
    {"fuse_norm_residual", "before fuse_elementwise, which would take the addition", fuse_norm_residual, has<ops::RmsNormGrad, ops::LayerNormGrad>},
    {"fuse_addend", "after fuse_norm_residual: the residual's gradient is better added in the norm's gradient", fuse_addend, has<ops::Matmul, ops::Linear, ops::AllReduce>},
    {"fuse_bias_gradient", "after fuse_addend: a product gains more from an addend", fuse_bias_gradient, has<ops::Matmul>},
    {"group_updates", "anywhere: no node reads the result of an update", group_updates, has<ops::AdamUpdate, ops::SgdUpdate, ops::SumSquares>},
    {"read_quantized", "after the passes that change layers: frozen ones may be quantized", read_quantized, has<ops::Dequantize>},
    {"fuse_formulas", "before fuse_elementwise, which fuses what formulas consist of", fuse_formulas, has_formulas},
    {"fuse_elementwise", "it fuses the elementwise ops that no named pattern took", fuse_elementwise},
    {"place_gathers", "after every pass that looks for equal nodes; before remat, which counts the memory of weights", place_gathers, has_storage},
    {"remat", "after every pass that looks for equal nodes, which would undo it", rematerialize, has_budget},
    {"fuse_swiglu_products", "after remat, which recomputes a product without its readers", fuse_swiglu_products, has<ops::Linear, ops::Swiglu, ops::SwigluGrad>},
    {"group_casts", "last: casts that fusion took are gone, and casts recomputed to save memory stay", group_casts, has<ops::Cast>},
};

}  // namespace

std::span<const Pass> preparation_pipeline() { return kPreparation; }
std::span<const Pass> low_precision_pipeline() { return kLowPrecision; }
std::span<const Pass> inference_pipeline() { return kInference; }
std::span<const Pass> training_pipeline() { return kTraining; }

bool trains(const Graph& graph) {
  return std::ranges::any_of(graph.updates(), [&](const StateUpdate& update) {
    const State& state = graph.model().state(update.state);
    return state.role == StateRole::kParameter && state.trainable;
  });
}

std::span<const Pass> pipeline_for(const Graph& graph) {
  return trains(graph) ? training_pipeline() : inference_pipeline();
}

// one_row_starts makes scalars of numbers that are one per row of a cache.
std::set<std::string, std::less<>> session_passes() { return {"one_row_starts"}; }

std::vector<Pass> all_passes() {
  std::vector<Pass> passes;
  for (const auto pipeline :
       {preparation_pipeline(), low_precision_pipeline(), inference_pipeline(), training_pipeline()})
    for (const Pass& pass : pipeline)
      if (std::ranges::find(passes, pass.name, &Pass::name) == passes.end()) passes.push_back(pass);
  return passes;
}

void check_pass_names(const std::set<std::string, std::less<>>& names) {
  std::vector<std::string> there;
  for (const Pass& pass : all_passes()) there.emplace_back(pass.name);
  for (const std::string& name : names)
    if (std::ranges::find(there, name) == there.end())
      fail("there is no pass '{}'{}; the passes are: {}", name, did_you_mean(name, there),
           fmt::join(there, ", "));
}

}  // namespace genesis::passes
