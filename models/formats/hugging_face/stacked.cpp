#include "models/formats/hugging_face/stacked.h"

#include <algorithm>
#include <cstring>

#include "schema/core/parallel.h"

namespace genesis::models::hugging_face {
namespace {

// Decodes a weight if it is quantized; it becomes a plain tensor.
void decode(const std::string& name, DType dtype, CheckpointWeights& weights) {
  const auto encoded = weights.encoded.find(name);
  if (encoded == weights.encoded.end()) return;
  weights.tensors[name] = with_context([&] { return quantized::decode(encoded->second, dtype); },
                                       [&] { return "in weight '" + name + "'"; });
  weights.encoded.erase(encoded);
}

// The sizes of a tensor of TurnedWeights: [experts, in, parts * out], or without `in`.
struct TurnedSizes {
  int64_t experts, in, out, parts;

  TurnedSizes(const TensorType& part, int64_t count)
      : experts(part.shape[0].value()),
        in(part.shape.rank() == 3 ? part.shape[2].value() : 1),
        out(part.shape[1].value()),
        parts(count) {}
};

// Calls move(element of the tensor, element of part p) for all elements of part p.
template <class Move>
void for_turned(const TurnedSizes& s, int64_t p, const Move& move) {
  in_parallel(s.experts * s.out, 64, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      for (int64_t i = 0; i < s.in; ++i)
        move((row / s.out * s.in + i) * s.parts * s.out + s.parts * (row % s.out) + p, row * s.in + i);
  });
}

template <class Body>
void with_unsigned(DType dtype, const Body& body) {
  if (size_of(dtype) == 8) return body(uint64_t{});
  size_of(dtype) == 4 ? body(uint32_t{}) : body(uint16_t{});
}

Tensor part_of(const Tensor& stored, const TensorType& part, int64_t parts, int64_t p) {
  std::byte* data;
  Tensor result = Tensor::uninitialized({stored.type().dtype, part.shape}, &data);
  with_unsigned(stored.type().dtype, [&](auto unit) {
    using T = decltype(unit);
    const T* from = reinterpret_cast<const T*>(stored.data());
    T* to = reinterpret_cast<T*>(data);
    for_turned({part, parts}, p, [&](int64_t in_stored, int64_t in_part) { to[in_part] = from[in_stored]; });
  });
  return result;
}

Tensor joined_parts(const Stack& stack, const NamedTensors& tensors) {
  const TensorType& type = tensors.at(stack.parts.front()).type();
  std::vector<int64_t> sizes = type.shape.sizes();
  sizes.insert(sizes.begin(), std::ssize(stack.parts));
  std::byte* data;
  Tensor whole = Tensor::uninitialized({type.dtype, Shape::of(sizes)}, &data);
  for (const std::string& name : stack.parts) {
    const Tensor& part = tensors.at(name);
    if (!(part.type() == type))
      fail("tensor '{}' is {}, and '{}' {}: experts must be alike", name, part.type().to_string(),
           stack.parts.front(), type.to_string());
    std::memcpy(data, part.data(), static_cast<size_t>(part.bytes()));
    data += part.bytes();
  }
  return whole;
}

}  // namespace

std::optional<Stack> stack_of(const Family& family, const std::string& name, int64_t experts) {
  for (const StackedWeights& stacked : family.hugging_face->stacked) {
    if (!name.ends_with(stacked.whole)) continue;
    const std::string layer = name.substr(0, name.size() - stacked.whole.size());
    Stack stack{name, {}};
    for (int64_t i = 0; i < experts; ++i)
      stack.parts.push_back(layer + stacked.before + std::to_string(i) + stacked.after);
    return stack;
  }
  return std::nullopt;
}

void stack_experts(const Model& model, const Family& family, CheckpointWeights& weights) {
  if (family.hugging_face->stacked.empty()) return;
  for (const State& state : model.states()) {
    if (state.type.shape.rank() != 3) continue;
    const auto stack = stack_of(family, state.name, state.type.shape[0].value());
    if (!stack) continue;
    for (const std::string& name : stack->parts) decode(name, state.type.dtype, weights);
    const bool are_there = std::ranges::all_of(
        stack->parts, [&](const std::string& name) { return weights.tensors.contains(name); });
    if (!are_there) continue;
    Tensor whole = joined_parts(*stack, weights.tensors);
    for (const std::string& name : stack->parts) weights.tensors.erase(name);
    weights.tensors[stack->whole] = std::move(whole);
  }
}

TensorType turned_type(const TensorType& part, int64_t parts) {
  const TurnedSizes s(part, parts);
  if (part.shape.rank() == 2) return {part.dtype, {s.experts, s.out * parts}};
  return {part.dtype, {s.experts, s.in, s.out * parts}};
}

std::optional<Turned> turned_of(const Family& family, const std::string& name) {
  for (const TurnedWeights& turned : family.hugging_face->turned)
    for (const std::string& part : turned.parts) {
      if (!name.ends_with(part)) continue;
      const std::string layer = name.substr(0, name.size() - part.size());
      Turned found{layer + turned.stored, {}};
      for (const std::string& other : turned.parts) found.parts.push_back(layer + other);
      return found;
    }
  return std::nullopt;
}

void turn_experts(const Model& model, const Family& family, CheckpointWeights& weights) {
  for (const State& state : model.states()) {
    const auto turned = turned_of(family, state.name);
    if (!turned || turned->parts.front() != state.name) continue;
    decode(turned->stored, state.type.dtype, weights);
    const auto stored = weights.tensors.find(turned->stored);
    if (stored == weights.tensors.end()) continue;
    const int64_t parts = std::ssize(turned->parts);
    const TensorType type = turned_type(state.type, parts);
    if (!(stored->second.type().shape == type.shape) || !is_float(stored->second.type().dtype))
      fail("tensor '{}' is {}, expected {}", stored->first, stored->second.type().to_string(),
           type.to_string());
    for (int64_t p = 0; p < parts; ++p)
      weights.tensors[turned->parts[static_cast<size_t>(p)]] = part_of(stored->second, state.type, parts, p);
    weights.tensors.erase(turned->stored);
  }
}

Tensor turned_back(const std::vector<Tensor>& parts) {
  const TensorType& type = parts.front().type();
  const int64_t count = std::ssize(parts);
  std::byte* data;
  Tensor result = Tensor::uninitialized(turned_type(type, count), &data);
  with_unsigned(type.dtype, [&](auto unit) {
    using T = decltype(unit);
    for (int64_t p = 0; p < count; ++p) {
      const T* from = reinterpret_cast<const T*>(parts[static_cast<size_t>(p)].data());
      T* to = reinterpret_cast<T*>(data);
      for_turned({type, count}, p,
                 [&](int64_t in_stored, int64_t in_part) { to[in_stored] = from[in_part]; });
    }
  });
  return result;
}

Tensor matrix_of(const Tensor& whole, int64_t index) {
  std::vector<int64_t> sizes = whole.type().shape.sizes();
  const int64_t bytes = whole.bytes() / sizes.front();
  sizes.erase(sizes.begin());
  return {{whole.type().dtype, Shape::of(sizes)},
          std::make_shared<const Tensor>(whole),
          whole.data() + index * bytes};
}

}  // namespace genesis::models::hugging_face
