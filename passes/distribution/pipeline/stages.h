// Splits a model's layers into the stages of a pipeline: each rank along the mesh axis "pipeline" has some consecutive layers,
// with their weights and moments, and sends each micro-batch to the next rank (GPipe: Huang et al. 2019, arXiv:1811.06965).
#pragma once

#include <string>

#include "passes/core/pass.h"
#include "passes/distribution/pipeline/schedule.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Describes one stage of an entry point, for all micro-batches together.
struct StageSummary {
  std::string first, last;  // its first and last layer, by the names of their states
  double flops = 0;         // FLOPs of products
  int64_t state_bytes = 0;  // bytes of the states that only this stage keeps
};
struct PipelineSummary {
  std::vector<StageSummary> stages;
  int64_t micro_batches = 1;
  double bubble = 0;  // fraction of the time of all stages in which they wait, by the cost of their nodes
};

// Returns the stage that keeps each state of the model; kEveryStage if all ranks keep it. The model is split only where a
// single tensor, the residual stream, crosses, so that the time of the slowest stage is minimal, by the costs that ops declare
// (schema/graph/cost.h) at sizes of 512. Throws an Error if the model has no entry point that trains, or fewer such segments
// than stages.
std::vector<int64_t> plan_stages(const Model& model, int64_t stages, const Target& target = {});

// Returns what this rank keeps: each state that belongs to a stage is kept whole there, and not at all on other stages. Empty
// if the mesh has one rank along "pipeline", and for a model whose nodes name that axis themselves. Throws an Error as above,
// and for combinations that pipelines do not support yet: ranks along "tensor", and ZeRO.
StateStorage find_stage_states(const Model& model, const Mesh& mesh, int64_t rank, int zero,
                               const Target& target = {});

// Summarizes an entry point with these sizes.
PipelineSummary summarize_pipeline(const Model& model, const std::string& entry, const Bindings& sizes,
                                   int64_t stages, const Target& target = {});

}  // namespace genesis::passes
