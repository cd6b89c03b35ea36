// The names of GGUF's tensors as those of the zoo's models.
#pragma once

#include <string>

namespace genesis::models::gguf {

// "model.layers.3.self_attn.q_proj.weight" of "blk.3.attn_q.weight"; empty for a name that the model does not know.
std::string name_in_zoo(const std::string& name, const std::string& model);

// Whether llama.cpp stores the rows of each head in another order: as pairs that rope rotates, (0, h/2, 1, h/2 + 1, ...) for a
// head of h rows.
bool has_rows_in_pairs(const std::string& name, const std::string& model);

}  // namespace genesis::models::gguf
