#include "schema/file/other_formats/onnx/tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"

namespace genesis {
namespace {

struct ElementType {
  const char* name;
  int64_t bits;
};

// Indexed by TensorProto.DataType.
constexpr ElementType kElementTypes[] = {
    {"unknown", 0},    {"f32", 32},   {"u8", 8},         {"i8", 8},           {"u16", 16},  {"i16", 16},
    {"i32", 32},       {"i64", 64},   {"string", 0},     {"bool", 8},         {"f16", 16},  {"f64", 64},
    {"u32", 32},       {"u64", 64},   {"complex64", 64}, {"complex128", 128}, {"bf16", 16}, {"f8e4m3fn", 8},
    {"f8e4m3fnuz", 8}, {"f8e5m2", 8}, {"f8e5m2fnuz", 8}, {"u4", 4},           {"i4", 4},    {"f4e2m1", 4},
    {"f8e8m0", 8},     {"u2", 2},     {"i2", 2}};

void read_external(const ProtoMessage& message, OnnxTensorData& values) {
  std::string key, value;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) key = field.text();
    if (field.number == 2) value = field.text();
  });
  if (!values.external) values.external.emplace();
  if (key == "location") values.external->location = value;
  if (key != "offset" && key != "length") return;
  const auto number = parse_number<int64_t>(value);
  if (!number || *number < 0) fail("at byte {}: '{}' of external data is '{}'", message.offset, key, value);
  if (key == "offset") values.external->offset = *number;
  if (key == "length") values.external->length = number;
}

int64_t count_varints(const ProtoMessage& packed) {
  return std::ranges::count_if(packed.bytes,
                               [](std::byte byte) { return (byte & std::byte{0x80}) == std::byte{}; });
}

// Returns how many numbers a field holds: one number, or a packed list of them. Each text is a field of its own.
int64_t count_in(const ProtoField& field) {
  if (field.number == 6 || field.kind != ProtoField::Kind::kPiece) return 1;
  if (field.number == 4) return static_cast<int64_t>(field.message().bytes.size() / 4);
  if (field.number == 10) return static_cast<int64_t>(field.message().bytes.size() / 8);
  return count_varints(field.message());
}

// Returns the bytes of elements; types of less than a byte are packed.
int64_t bytes_of(int64_t elements, int64_t bits) {
  return bits < 8 && bits > 0 ? (elements + 8 / bits - 1) / (8 / bits) : elements * (bits / 8);
}

// Returns how many numbers the typed fields must hold: two per complex number, and one per byte of packed elements.
int64_t typed_count(int64_t elements, const OnnxType& type) {
  if (type.dtype.starts_with("complex")) return 2 * elements;
  return type.bits > 0 && type.bits < 8 ? bytes_of(elements, type.bits) : elements;
}

void check_values(const OnnxTensor& tensor, int64_t elements, const OnnxTensorData& values) {
  const auto refuse = [&](const std::string& found) {
    fail("tensor '{}' of {} has {}: the file is damaged or incomplete", tensor.name,
         onnx_text({"", tensor.type, {}, {}}), found);
  };
  if (tensor.type.dtype == "unknown") return;
  if (values.external) {
    const int64_t wanted = bytes_of(elements, tensor.type.bits);
    if (tensor.type.bits > 0 && values.external->length && *values.external->length != wanted)
      refuse(fmt::format("{} bytes in another file, expected {}", *values.external->length, wanted));
    return;
  }
  if (values.has_raw) {
    const auto found = static_cast<int64_t>(values.raw.bytes.size()),
               wanted = bytes_of(elements, tensor.type.bits);
    if (found != wanted) refuse(fmt::format("{} bytes of values, expected {}", found, wanted));
    return;
  }
  int64_t found = 0;
  for (const ProtoField& field : values.typed) found += count_in(field);
  if (found != typed_count(elements, tensor.type))
    refuse(fmt::format("{} values, expected {}", found, elements));
}

template <class Number>
std::vector<Number> raw_numbers(const ProtoMessage& raw) {
  std::vector<Number> numbers(raw.bytes.size() / sizeof(Number));
  std::memcpy(numbers.data(), raw.bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

template <class Number>
void take_raw(const ProtoMessage& raw, auto& numbers) {
  for (const Number number : raw_numbers<Number>(raw))
    numbers.push_back(static_cast<std::decay_t<decltype(numbers[0])>>(number));
}

void take_values(const OnnxTensorData& values, OnnxTensor& tensor) {
  const std::string& dtype = tensor.type.dtype;
  if (values.has_raw) {
    if (dtype == "i64") take_raw<int64_t>(values.raw, tensor.integers);
    if (dtype == "i32") take_raw<int32_t>(values.raw, tensor.integers);
    if (dtype == "bool") take_raw<uint8_t>(values.raw, tensor.integers);
    if (dtype == "f32") take_raw<float>(values.raw, tensor.reals);
    if (dtype == "f64") take_raw<double>(values.raw, tensor.reals);
    return;
  }
  for (const ProtoField& field : values.typed) {
    if (dtype == "f32" && field.number == 4) append_floats(field, tensor.reals);
    if ((dtype == "i64" && field.number == 7) || ((dtype == "i32" || dtype == "bool") && field.number == 5))
      append_integers(field, tensor.integers);
  }
}

std::string read_dim(const ProtoMessage& message) {
  std::string dim = "?";
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1 && field.as_signed() >= 0) dim = std::to_string(field.as_signed());
    if (field.number == 2 && !field.text().empty()) dim = field.text();
  });
  return dim;
}

void read_tensor_type(const ProtoMessage& message, OnnxType& type) {
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) {
      const OnnxType element = onnx_element_type(field.as_signed());
      type.dtype = element.dtype;
      type.bits = element.bits;
      type.element = element.element;
    }
    if (field.number != 2) return;
    type.has_shape = true;
    for_each_field(field.message(), [&](const ProtoField& dim) {
      if (dim.number == 1) type.shape.push_back(read_dim(dim.message()));
    });
  });
}

// A TypeProto: a tensor, or a sequence or an optional value of another type, which is field 1 of it.
void read_type(const ProtoMessage& message, OnnxType& type, int depth) {
  constexpr int kDeepestType = 8;
  if (depth > kDeepestType)
    fail("at byte {}: types within more than {} others", message.offset, kDeepestType);
  for_each_field(message, [&](const ProtoField& kind) {
    if (kind.number == 1) read_tensor_type(kind.message(), type);
    if (kind.number == 5) type.dtype = "map";
    if (kind.number != 4 && kind.number != 9) return;
    type.dtype = kind.number == 4 ? "sequence" : "optional";
    auto item = std::make_shared<OnnxType>();
    for_each_field(kind.message(), [&](const ProtoField& field) {
      if (field.number == 1) read_type(field.message(), *item, depth + 1);
    });
    type.item = item;
  });
}

bool is_typed_data(uint32_t field) { return (field >= 4 && field <= 7) || field == 10 || field == 11; }

}  // namespace

OnnxType onnx_element_type(int64_t number) {
  const bool is_known = number >= 0 && number < static_cast<int64_t>(std::size(kElementTypes));
  const ElementType& element = kElementTypes[is_known ? number : 0];
  OnnxType type;
  type.dtype = element.name;
  type.bits = element.bits;
  type.element = is_known ? number : 0;
  return type;
}

std::optional<int64_t> count_elements(const OnnxType& type, const std::string& name) {
  int64_t elements = 1, bits = 0;
  bool is_known = true, has_none = false, is_too_large = false;
  for (const std::string& dim : type.shape) {
    const auto size = parse_number<int64_t>(dim);
    if (size && *size < 0) fail("tensor '{}' has a dimension of {}: the file is damaged", name, *size);
    is_known &= size.has_value();
    has_none |= size == 0;
    if (size && *size > 0) is_too_large |= __builtin_mul_overflow(elements, *size, &elements);
  }
  is_too_large |= __builtin_mul_overflow(elements, std::max<int64_t>(type.bits, 8), &bits);
  if (is_too_large)
    fail("tensor '{}' is said to be {}[{}], which is more than 64 bits can count: the file is damaged", name,
         type.dtype, fmt::join(type.shape, ","));
  if (!is_known) return std::nullopt;
  return has_none ? 0 : elements;
}

OnnxTensor read_onnx_tensor(const ProtoMessage& message) {
  OnnxTensor tensor;
  std::vector<int64_t> dims;
  OnnxTensorData values;
  bool is_external = false;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) append_integers(field, dims);
    if (field.number == 2) tensor.type = onnx_element_type(field.as_signed());
    if (field.number == 8) tensor.name = field.text();
    if (field.number == 9) values.has_raw = true, values.raw = field.message();
    if (is_typed_data(field.number)) values.typed.push_back(field);
    if (field.number == 13) read_external(field.message(), values);
    if (field.number == 14) is_external = field.integer == 1;
  });
  if (!is_external) values.external.reset();
  if (is_external && !values.external) fail("tensor '{}' lies in a file without a name", tensor.name);
  tensor.type.has_shape = true;
  for (const int64_t dim : dims) tensor.type.shape.push_back(std::to_string(dim));
  const int64_t elements = count_elements(tensor.type, tensor.name).value_or(0);
  check_values(tensor, elements, values);
  if (elements <= kShownElements && !values.external) take_values(values, tensor);
  tensor.data = std::move(values);
  return tensor;
}

OnnxTensor read_onnx_sparse_tensor(const ProtoMessage& message) {
  OnnxTensor tensor;
  std::vector<int64_t> dims;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) tensor = read_onnx_tensor(field.message());
    if (field.number == 3) append_integers(field, dims);
  });
  tensor.type.shape.clear();
  tensor.integers.clear();
  tensor.reals.clear();
  tensor.data = {.has_raw = false, .is_sparse = true, .raw = {}, .typed = {}, .external = {}};
  for (const int64_t dim : dims) tensor.type.shape.push_back(std::to_string(dim));
  static_cast<void>(count_elements(tensor.type, tensor.name));
  return tensor;
}

std::pair<std::string, OnnxType> read_onnx_value(const ProtoMessage& message) {
  std::pair<std::string, OnnxType> value;
  for_each_field(message, [&](const ProtoField& field) {
    if (field.number == 1) value.first = field.text();
    if (field.number == 2) read_type(field.message(), value.second, 0);
  });
  static_cast<void>(count_elements(value.second, value.first));
  return value;
}

std::string onnx_text(const OnnxTensor& tensor) {
  constexpr size_t kMax = 8;
  std::string text = fmt::format("{}[{}]", tensor.type.dtype, fmt::join(tensor.type.shape, ","));
  if (!tensor.integers.empty() && tensor.integers.size() <= kMax)
    text += tensor.type.shape.empty() ? fmt::format(" = {}", tensor.integers[0])
                                      : fmt::format(" = [{}]", fmt::join(tensor.integers, ","));
  if (!tensor.reals.empty() && tensor.reals.size() <= kMax) {
    // An f32 is printed with fewer digits than the double that holds it here.
    std::vector<std::string> texts;
    for (const double real : tensor.reals)
      texts.push_back(tensor.type.dtype == "f32" ? fmt::format("{}", static_cast<float>(real))
                                                 : fmt::format("{}", real));
    text += tensor.type.shape.empty() ? " = " + texts[0] : fmt::format(" = [{}]", fmt::join(texts, ","));
  }
  return text;
}

}  // namespace genesis
