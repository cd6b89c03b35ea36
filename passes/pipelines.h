// The lists of passes in order, each line with the reason for its place. A Session runs the pipeline for its graph after
// binding; genesis-opt runs the passes on files and lists them.
#pragma once

#include "passes/core/pass.h"

namespace genesis::passes {

// Runs before add_train_step: makes one op with a good gradient of its own out of several. Works on graphs with symbols.
std::span<const Pass> preparation_pipeline();
// Runs inside add_train_step, between the cast to low precision and autodiff.
std::span<const Pass> low_precision_pipeline();
// Serves graphs without a backward pass.
std::span<const Pass> inference_pipeline();
// Serves graphs with a backward pass.
std::span<const Pass> training_pipeline();
// Returns the training pipeline if the graph trains, else the inference pipeline.
std::span<const Pass> pipeline_for(const Graph& graph);

// Returns true if the graph updates a trainable parameter, so that the training pipeline is for it. Only that one keeps to a
// memory budget.
bool trains(const Graph& graph);
// Returns the names of the passes that only a session runs. They depend on sizes that a written file leaves open: a session may
// give a cache more rows than the file.
std::set<std::string, std::less<>> session_passes();

// Returns every pass once, by name: for listings and for checking names.
std::vector<Pass> all_passes();
// Throws an Error that names an unknown pass and lists the known ones.
void check_pass_names(const std::set<std::string, std::less<>>& names);

}  // namespace genesis::passes
