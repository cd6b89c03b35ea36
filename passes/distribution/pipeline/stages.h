// A model's layers as the stages of a pipeline: ranks along the mesh axis "pipeline" each have some neighbouring layers, with their
// weights and moments, and hand each micro-batch on to the next (GPipe: Huang et al. 2019, arXiv:1811.06965).
#pragma once

#include <string>

#include "passes/core/pass.h"
#include "passes/distribution/pipeline/schedule.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Of one stage of an entry point, for all micro-batches together.
struct StageSummary {
  std::string first, last;  // the layers it begins and ends with, by the names of their states
  double flops = 0;         // of products
  int64_t state_bytes = 0;  // of states that it keeps and other stages do not
};
struct PipelineSummary {
  std::vector<StageSummary> stages;
  int64_t micro_batches = 1;
  double bubble = 0;  // the share of the time of all stages in which they wait, by what their nodes cost
};

// Which stage keeps each state of the model: kEveryStage where all ranks do. Layers are cut where one tensor alone goes from
// what is before to what is behind, the residual stream, and shared so that the stage with the most to do has as little as can be,
// by the costs that ops declare (schema/graph/cost.h), at sizes of 512. Throws Error where the model has no entry point that
// trains, or fewer such pieces than stages.
std::vector<int64_t> plan_stages(const Model& model, int64_t stages, const Target& target = {});

// What this rank keeps: of each state that a stage has, all on that stage and nothing on the others. Empty where the mesh has one
// rank along "pipeline", and for a model whose nodes name that axis themselves. Throws Error as above, and for what does not go together with pipelines yet: ranks along "tensor", and
// ZeRO.
StateStorage find_stage_states(const Model& model, const Mesh& mesh, int64_t rank, int zero,
                               const Target& target = {});

// Of an entry point with these sizes.
PipelineSummary summarise_pipeline(const Model& model, const std::string& entry, const Bindings& sizes,
                                   int64_t stages, const Target& target = {});

}  // namespace genesis::passes
