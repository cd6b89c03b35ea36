#include "schema/file/other_formats/onnx/tensor_data.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"
#include "schema/core/take_pages.h"

namespace genesis {
namespace {

struct Storage {
  DType dtype;
  bool is_same = true;  // the bytes in a file are those of the DType
};

std::optional<Storage> storage_of(OnnxElement element) {
  switch (element) {
    case OnnxElement::kF32:
      return Storage{DType::f32};
    case OnnxElement::kF64:
      return Storage{DType::f64};
    case OnnxElement::kF16:
      return Storage{DType::f16};
    case OnnxElement::kBf16:
      return Storage{DType::bf16};
    case OnnxElement::kI8:
      return Storage{DType::i8};
    case OnnxElement::kU8:
    case OnnxElement::kF8E4M3FN:
    case OnnxElement::kF8E4M3FNUZ:
    case OnnxElement::kF8E5M2:
    case OnnxElement::kF8E5M2FNUZ:
    case OnnxElement::kF8E8M0:
      return Storage{DType::u8};
    case OnnxElement::kI16:
      return Storage{DType::i16};
    case OnnxElement::kI32:
      return Storage{DType::i32};
    case OnnxElement::kI64:
    case OnnxElement::kU64:
      return Storage{DType::i64};
    case OnnxElement::kBool:
      return Storage{DType::boolean, false};
    case OnnxElement::kU16:
      return Storage{DType::i32, false};
    case OnnxElement::kU32:
      return Storage{DType::i64, false};
    case OnnxElement::kU4:
    case OnnxElement::kU2:
    case OnnxElement::kF4E2M1:
      return Storage{DType::u8, false};
    case OnnxElement::kI4:
    case OnnxElement::kI2:
      return Storage{DType::i8, false};
    default:
      return std::nullopt;
  }
}

// Bits of an element that takes less than a byte; 8 for others.
int small_bits(OnnxElement element) {
  if (element == OnnxElement::kU4 || element == OnnxElement::kI4 || element == OnnxElement::kF4E2M1) return 4;
  return element == OnnxElement::kU2 || element == OnnxElement::kI2 ? 2 : 8;
}

bool is_small_signed(OnnxElement element) {
  return element == OnnxElement::kI4 || element == OnnxElement::kI2;
}

// Elements of 2 and 4 bits are packed from the low bits of each byte on.
void unpack(std::span<const std::byte> packed, OnnxElement element, std::byte* to, size_t count) {
  const auto bits = static_cast<size_t>(small_bits(element)), per_byte = 8 / bits;
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned>(packed[i / per_byte]);
    int value = static_cast<int>(byte >> (bits * (i % per_byte))) & ((1 << bits) - 1);
    if (is_small_signed(element) && value >= 1 << (bits - 1)) value -= 1 << bits;
    to[i] = static_cast<std::byte>(value);
  }
}

template <class From, class To>
void widen(std::span<const std::byte> from, std::byte* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    const To wide = static_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &wide, sizeof(To));
  }
}

// Writes elements whose bytes in the file differ from those of the DType that holds them.
void convert(std::span<const std::byte> raw, OnnxElement element, std::byte* to, size_t count) {
  if (element == OnnxElement::kU16) return widen<uint16_t, int32_t>(raw, to, count);
  if (element == OnnxElement::kU32) return widen<uint32_t, int64_t>(raw, to, count);
  if (element != OnnxElement::kBool) return unpack(raw, element, to, count);
  for (size_t i = 0; i < count; ++i) to[i] = raw[i] == std::byte{0} ? std::byte{0} : std::byte{1};
}

TensorType type_of(const OnnxTensor& tensor, DType dtype) {
  TensorType type{dtype, {}};
  for (const std::string& size : tensor.type.shape)
    type.shape.push_back(parse_number<int64_t>(size).value_or(0));
  return type;
}

size_t raw_bytes(int64_t elements, const OnnxTensor& tensor) {
  const auto bits = static_cast<size_t>(tensor.type.bits), count = static_cast<size_t>(elements);
  return bits < 8 ? (count + 8 / bits - 1) / (8 / bits) : count * (bits / 8);
}

Tensor from_raw(const OnnxTensor& tensor, std::span<const std::byte> raw,
                const std::shared_ptr<const void>& owner) {
  const auto element = static_cast<OnnxElement>(tensor.type.element);
  const Storage storage = *storage_of(element);
  const TensorType type = type_of(tensor, storage.dtype);
  const auto address = reinterpret_cast<uintptr_t>(raw.data());
  if (storage.is_same && owner && !raw.empty() && address % size_of(storage.dtype) == 0)
    return Tensor(type, owner, raw.data());
  std::byte* to = nullptr;
  Tensor made = Tensor::uninitialized(type, &to);
  take_pages(to, type.bytes());
  if (storage.is_same && !raw.empty()) std::memcpy(to, raw.data(), raw.size());
  if (!storage.is_same) convert(raw, element, to, static_cast<size_t>(type.numel()));
  return made;
}

void append_bytes(const void* from, size_t count, std::vector<std::byte>& bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), first, first + count);
}

// The bytes that raw_data would have, from the fields by type: smaller integers and halves are in int32_data.
std::vector<std::byte> bytes_of_typed(const OnnxTensor& tensor, size_t count) {
  std::vector<std::byte> bytes;
  const auto width = static_cast<size_t>(std::max<int64_t>(tensor.type.bits / 8, 1));
  for (const ProtoField& field : tensor.data.typed) {
    const bool is_real = field.number == 4 || field.number == 10;
    if (is_real != (tensor.type.dtype == "f32" || tensor.type.dtype == "f64"))
      fail("tensor '{}' of {} has its values in a field for others", tensor.name, tensor.type.dtype);
    if (is_real && field.kind == ProtoField::Kind::kPiece) {
      append_bytes(field.message().bytes.data(), field.message().bytes.size(), bytes);
    } else if (is_real) {
      append_bytes(&field.integer, width, bytes);
    } else {
      std::vector<int64_t> integers;
      append_integers(field, integers);
      for (const int64_t integer : integers) append_bytes(&integer, width, bytes);
    }
  }
  if (bytes.size() != count) fail("it has {} bytes of values, expected {}", bytes.size(), count);
  return bytes;
}

}  // namespace

std::optional<DType> onnx_storage(OnnxElement element) {
  const auto storage = storage_of(element);
  return storage ? std::optional(storage->dtype) : std::nullopt;
}

OnnxElement onnx_element_of(DType dtype) {
  constexpr OnnxElement kElements[] = {
      OnnxElement::kF32, OnnxElement::kF64, OnnxElement::kF16, OnnxElement::kBf16, OnnxElement::kI8,
      OnnxElement::kU8,  OnnxElement::kI16, OnnxElement::kI32, OnnxElement::kI64,  OnnxElement::kBool};
  return kElements[static_cast<size_t>(dtype)];
}

Tensor onnx_tensor_values(const OnnxTensor& tensor, const std::shared_ptr<const void>& owner,
                          OnnxExternalFiles& external) {
  static_assert(std::endian::native == std::endian::little, "the bytes of ONNX are little-endian");
  const auto element = static_cast<OnnxElement>(tensor.type.element);
  if (!storage_of(element)) fail("tensor '{}' is of {}, which is not read", tensor.name, tensor.type.dtype);
  if (tensor.data.is_sparse) fail("tensor '{}' is sparse, which is not read", tensor.name);
  const int64_t elements = type_of(tensor, DType::u8).numel();
  const size_t bytes = raw_bytes(elements, tensor);
  return with_context(
      [&] {
        if (const auto& there = tensor.data.external) {
          const auto file = external.open(*there, static_cast<int64_t>(bytes));
          return from_raw(tensor, file->bytes().subspan(static_cast<size_t>(there->offset), bytes), file);
        }
        if (tensor.data.has_raw) {
          if (tensor.data.raw.bytes.size() != bytes)
            fail("it has {} bytes, expected {}", tensor.data.raw.bytes.size(), bytes);
          return from_raw(tensor, tensor.data.raw.bytes, owner);
        }
        const std::vector<std::byte> made = bytes_of_typed(tensor, bytes);
        return from_raw(tensor, made, nullptr);
      },
      [&] { return fmt::format("in the tensor '{}'", tensor.name); });
}

}  // namespace genesis
