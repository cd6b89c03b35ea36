// Handles tensors of a checkpoint that the model has no state for: heads for multi-token prediction, buffers, or the vision tower
// of a multimodal model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/formats/hugging_face/checkpoint.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// Advice for an error about a tensor of this name.
inline constexpr std::string_view kRemedyOfExtra =
    "; weights that the model does not have are left out with --ignore-extra PATTERN, such as "
    "--ignore-extra '{}'";

// Warns of patterns (`*` and `?`) that match none of `extra`, the names of tensors that the model has no place for.
void warn_of_useless_patterns(const std::vector<std::string>& extra, const std::vector<std::string>& ignored);

// Removes tensors from `weights` that the model has no state for:
//  - those whose names match one of the patterns `ignored` (`*` and `?`), with a warning for a pattern that matches none;
//  - those of modules that the model does not have at all ("mtp.fc.weight", "model.visual.*"), with a warning that names them,
//    as transformers does.
// Keeps a tensor inside of the model's own modules, because it would change what the model computes: an extra norm, bias or
// layer. Throws Error that lists the remaining tensors whose dtype is not supported.
void leave_out_extra_tensors(const Model& model, CheckpointWeights& weights,
                             const std::vector<std::string>& ignored);

}  // namespace genesis::models::hugging_face
