// The lists of passes, in order, each line with its reason. A Session runs the pipeline for its graph after
// binding; genesis-opt runs them on files and lists them.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Before add_train_step: what autodiff should see as one op with a good gradient of its own. Works on
// symbols.
std::span<const Pass> preparation_pipeline();
// By add_train_step, between casting to low precision and autodiff.
std::span<const Pass> low_precision_pipeline();
// For graphs without a backward part.
std::span<const Pass> inference_pipeline();
// For graphs with one.
std::span<const Pass> training_pipeline();
// The one that fits: training where a trainable parameter is updated, else inference.
std::span<const Pass> pipeline_for(const Graph& graph);

// Every pass once, by name: for lists and for checking names.
std::vector<Pass> all_passes();
// Throws Error that names an unknown pass and lists those there are.
void check_pass_names(const std::set<std::string, std::less<>>& names);

}  // namespace genesis::passes
