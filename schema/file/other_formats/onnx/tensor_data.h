// Reads the values of a tensor in an .onnx file. Element types of ONNX that no DType is are held in another DType: unsigned
// integers of 16, 32 and 64 bits in i32, i64 and i64 (the bits of u64), integers of 2 and 4 bits in i8 and u8, one to a byte, and
// reals of 8 and 4 bits as their codes in u8.
#pragma once

#include <optional>

#include "schema/core/tensor.h"
#include "schema/file/other_formats/onnx/external_data.h"
#include "schema/file/other_formats/onnx/values.h"

namespace genesis {

// The numbers of TensorProto.DataType.
enum class OnnxElement : int64_t {
  kUnknown = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBf16 = 16,
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kU4 = 21,
  kI4 = 22,
  kF4E2M1 = 23,
  kF8E8M0 = 24,
  kU2 = 25,
  kI2 = 26
};

// Returns the DType that holds an element type; empty for strings, complex numbers and unknown types.
std::optional<DType> onnx_storage(OnnxElement element);
// Returns the element type that a DType is.
OnnxElement onnx_element_of(DType dtype);

// Returns the values. If they are aligned bytes of a mapped file they stay there, and `owner` keeps them valid. Throws Error naming
// the tensor if its type is not held, or if its sizes need more bytes than the file has.
Tensor onnx_tensor_values(const OnnxTensor& tensor, const std::shared_ptr<const void>& owner,
                          OnnxExternalFiles& external);

}  // namespace genesis
