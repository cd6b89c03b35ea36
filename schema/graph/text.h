// The text form of graphs and models: one line per node, made to be read, compared, and written by hand in tests. It is stable:
// equal graphs give equal text, and it contains names, never ids. parse_text reads the output of to_text.
//
//   state @w: f32[4,3] parameter trainable
//   tensor #shift: f32[3] = (0.0, 1.0, 2.0)
//   entry forward(x: f32[batch,4]) {
//     %y = matmul(x, @w) : f32[batch,3]
//     %z = add(%y, #shift) : f32[batch,3]
//     return z = %z
//     update @w = ...
//   }
//
// Attributes that have their op's default are left out. `//` begins a comment.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "schema/graph/model.h"

namespace genesis {

struct TextOptions {
  bool origins = false;     // adds a comment to each node with the author's nodes it came from
  int64_t max_values = 16;  // tensors with more elements are printed as `...`
};

std::string to_text(const Graph& graph, const TextOptions& options = {});
std::string to_text(const Model& model, const TextOptions& options = {});
// Returns one node as to_text writes it, for errors and traces: "%y = matmul(x, @w) : f32[batch,3]".
std::string node_text(const Graph& graph, const Node& node, const TextOptions& options = {});

// Throws Error with the line number. Types after ':' may be left out; if given, they must equal the inferred ones. A tensor
// printed as `...` cannot be read back.
std::unique_ptr<Model> parse_text(std::string_view text);
// Adds the declarations of `text` to `model`; its entry points may use the model's states and tensors.
void parse_text(std::string_view text, Model& model);

}  // namespace genesis
