#include "passes/pipelines.h"

#include <algorithm>

#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/fold_constants.h"
#include "passes/simplify.h"
#include "schema/model.h"

namespace genesis::passes {
namespace {

constexpr Pass kPreparation[] = {
    {"simplify", "first, so that patterns are not hidden by needless reshapes and transposes", simplify},
    {"cse", "patterns look for values with one reader; equal values computed twice would not match",
     eliminate_common_subexpressions},
    {"dce", "last: nothing unread is differentiated", eliminate_dead_code},
};

constexpr Pass kInference[] = {
    {"simplify", "first: binding has made sizes known, and every later pass sees less", simplify},
    {"fold_constants", "what needs no input is computed once, at compile time", fold_constants},
    {"cse", "layers make the same masks and positions; now they are one", eliminate_common_subexpressions},
    {"dce", "last: nothing unread is run", eliminate_dead_code},
};

constexpr Pass kTraining[] = {
    {"simplify", "first: gradient rules leave expansions, casts and products with one", simplify},
    {"fold_constants", "what needs no input is computed once, at compile time", fold_constants},
    {"cse", "gradient rules compute again what the forward pass has", eliminate_common_subexpressions},
    {"dce", "last: gradients nobody asked for are not run", eliminate_dead_code},
};

}  // namespace

std::span<const Pass> preparation_pipeline() { return kPreparation; }
std::span<const Pass> inference_pipeline() { return kInference; }
std::span<const Pass> training_pipeline() { return kTraining; }

std::span<const Pass> pipeline_for(const Graph& graph) {
  const bool trains =
      std::any_of(graph.updates().begin(), graph.updates().end(), [&](const StateUpdate& update) {
        const State& state = graph.model().state(update.state);
        return state.role == StateRole::kParameter && state.trainable;
      });
  return trains ? training_pipeline() : inference_pipeline();
}

std::vector<Pass> all_passes() {
  std::vector<Pass> passes;
  for (const auto pipeline : {preparation_pipeline(), inference_pipeline(), training_pipeline()})
    for (const Pass& pass : pipeline)
      if (std::none_of(passes.begin(), passes.end(), [&](const Pass& p) { return p.name == pass.name; }))
        passes.push_back(pass);
  return passes;
}

void check_pass_names(const std::set<std::string, std::less<>>& names) {
  const std::vector<Pass> passes = all_passes();
  std::string known;
  for (const Pass& pass : passes) known += (known.empty() ? "" : ", ") + std::string(pass.name);
  for (const std::string& name : names)
    if (std::none_of(passes.begin(), passes.end(), [&](const Pass& p) { return p.name == name; }))
      fail("there is no pass '{}'; the passes are: {}", name, known);
}

}  // namespace genesis::passes
