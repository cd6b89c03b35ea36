// ONNX files for tests, written by hand as messages of protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace genesis::testing::onnx_messages {

inline std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7) bytes += static_cast<char>(number % 128 + 128);
  return bytes + static_cast<char>(number);
}
inline std::string number(uint32_t field, int64_t value) {
  return varint(field << 3) + varint(static_cast<uint64_t>(value));
}
inline std::string piece(uint32_t field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}

inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& attributes = "",
                        const std::string& domain = "") {
  std::string message;
  for (const std::string& input : inputs) message += piece(1, input);
  for (const std::string& output : outputs) message += piece(2, output);
  return message + piece(3, "n_" + op) + piece(4, op) + attributes + (domain.empty() ? "" : piece(7, domain));
}
inline std::string value_info(const std::string& name, const std::vector<int64_t>& sizes,
                              int64_t element = 1) {
  std::string shape;
  for (const int64_t size : sizes) shape += piece(1, number(1, size));
  return piece(1, name) + piece(2, piece(1, number(1, element) + piece(2, shape)));
}
inline std::string tensor(const std::string& name, const std::vector<int64_t>& sizes, int64_t element,
                          const std::string& rest) {
  std::string message;
  for (const int64_t size : sizes) message += number(1, size);
  return message + number(2, element) + piece(8, name) + rest;
}
inline std::string external(const std::string& location, const std::string& more = "") {
  return piece(13, piece(1, "location") + piece(2, location)) + more + number(14, 1);
}
// A model whose input and output are f32[4].
inline std::string model(const std::vector<std::string>& nodes, const std::vector<std::string>& tensors = {},
                         const std::string& functions = "",
                         const std::vector<std::string>& more_outputs = {}) {
  std::string graph;
  for (const std::string& one : nodes) graph += piece(1, one);
  for (const std::string& one : tensors) graph += piece(5, one);
  graph += piece(11, value_info("x", {4})) + piece(12, value_info("y", {4}));
  for (const std::string& name : more_outputs) graph += piece(12, value_info(name, {}));
  return number(1, 9) + piece(7, graph) + piece(8, number(2, 18)) + piece(8, piece(1, "own") + number(2, 1)) +
         functions;
}

}  // namespace genesis::testing::onnx_messages
