// Maps names of GGUF tensors to those of the zoo's models.
#pragma once

#include <string>
#include <string_view>

#include "models/families.h"

namespace genesis::models::gguf {

// Tensors with parameters of rotations, which become settings (config.h).
inline constexpr std::string_view kRopeDivisors = "rope_freqs.weight",
                                  kLongFactors = "rope_factors_long.weight",
                                  kShortFactors = "rope_factors_short.weight";

// Returns "model.layers.3.self_attn.q_proj.weight" for "blk.3.attn_q.weight"; empty for a name that the family does not have.
std::string name_in_zoo(const std::string& name, const GgufForm& form);

// Returns true if llama.cpp reorders the rows of each head, so that the pairs that RoPE rotates are adjacent: (0, h/2, 1, h/2 +
// 1, ...) for a head of h rows. `name` is that of the zoo.
bool has_rows_in_pairs(const std::string& name, const GgufForm& form);

// Returns true if a file stores the weight w as 1 + w. `name` is that of the zoo.
bool is_from_one(const std::string& name, const GgufForm& form);

}  // namespace genesis::models::gguf
