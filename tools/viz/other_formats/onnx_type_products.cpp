// Rules of matrix products and recurrent layers.
#include "tools/viz/other_formats/onnx_type_call.h"

namespace genesis::viz {
namespace {

// Follows numpy's matmul: a vector on the left is a row, a vector on the right is a column, and neither adds a
// dimension to the result.
void matrix_product(OnnxCall& call, size_t left, size_t right) {
  const OnnxShape *a = call.shape(left), *b = call.shape(right);
  if (!a || !b || a->empty() || b->empty()) return;
  const bool is_row = a->size() == 1, is_column = b->size() == 1;
  OnnxShape shape = broadcast(OnnxShape(a->begin(), a->end() - (is_row ? 1 : 2)),
                              OnnxShape(b->begin(), b->end() - (is_column ? 1 : 2)));
  if (!is_row) shape.push_back((*a)[a->size() - 2]);
  if (!is_column) shape.push_back(b->back());
  call.shape(shape);
}

void matmul(OnnxCall& call) {
  call.type_like(0);
  matrix_product(call, 0, 1);
}

void matmul_integer(OnnxCall& call) {
  call.type(onnx_element_type(6));
  matrix_product(call, 0, 1);
}

void quantized_matmul(OnnxCall& call) {
  call.type_like(7);
  matrix_product(call, 0, 3);
}

void gemm(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape *a = call.shape(0), *b = call.shape(1);
  if (!a || !b || a->size() != 2 || b->size() != 2) return;
  call.shape({(*a)[call.integer("transA", 0) != 0 ? 1 : 0], (*b)[call.integer("transB", 0) != 0 ? 0 : 1]});
}

// x is [time, batch, features], or [batch, time, features] with layout 1. The results are all hidden states, the last
// hidden state and, of an LSTM, the last cell state.
void recurrent(OnnxCall& call) {
  for (size_t i = 0; i < call.outputs.size(); ++i) call.type_like(0, i);
  const OnnxShape *x = call.shape(0), *r = call.shape(2);
  if (!x || x->size() != 3) return;
  const OnnxDim directions = call.string("direction") == "bidirectional" ? "2" : "1";
  const int64_t said = call.integer("hidden_size", -1);
  const OnnxDim hidden = said >= 0 ? dim_of(said) : r && r->size() == 3 ? (*r)[2] : kUnknownDim;
  const bool is_batch_first = call.integer("layout", 0) != 0;
  const OnnxDim &time = (*x)[is_batch_first ? 1 : 0], &batch = (*x)[is_batch_first ? 0 : 1];
  call.shape(is_batch_first ? OnnxShape{batch, time, directions, hidden}
                            : OnnxShape{time, directions, batch, hidden});
  for (const size_t output : {1, 2})
    call.shape(is_batch_first ? OnnxShape{batch, directions, hidden} : OnnxShape{directions, batch, hidden},
               output);
}

// Interprets "ij,jk->ik" with the sizes of the inputs. With "..." or without a result, the shape stays unknown.
void einsum(OnnxCall& call) {
  call.type_like(0);
  std::string equation = call.string("equation");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) return;
  std::map<char, OnnxDim> sizes;
  size_t input = 0, axis = 0;
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',') {
      ++input;
      axis = 0;
      continue;
    }
    const OnnxShape* x = call.shape(input);
    if (!x || axis >= x->size()) return;
    const auto [known, is_new] = sizes.try_emplace(letter, (*x)[axis]);
    if (!is_new && !size_of(known->second)) known->second = (*x)[axis];
    ++axis;
  }
  OnnxShape shape;
  for (const char letter : equation.substr(arrow + 2))
    shape.push_back(sizes.contains(letter) ? sizes[letter] : kUnknownDim);
  call.shape(shape);
}

constexpr NamedOnnxRule kProductRules[] = {{"MatMul", matmul},
                                           {"MatMulInteger", matmul_integer},
                                           {"QLinearMatMul", quantized_matmul},
                                           {"Gemm", gemm},
                                           {"LSTM", recurrent},
                                           {"GRU", recurrent},
                                           {"RNN", recurrent},
                                           {"Einsum", einsum}};

}  // namespace

std::span<const NamedOnnxRule> product_rules() { return kProductRules; }

}  // namespace genesis::viz
