#include "schema/core/dtype.h"

#include <array>

#include "schema/core/error.h"

namespace genesis {
namespace {

struct Row {
  std::string_view name;
  size_t size;
};
constexpr std::array<Row, kNumDTypes> kRows = {{{"f32", 4},
                                                {"f64", 8},
                                                {"f16", 2},
                                                {"bf16", 2},
                                                {"i8", 1},
                                                {"u8", 1},
                                                {"i16", 2},
                                                {"i32", 4},
                                                {"i64", 8},
                                                {"bool", 1}}};

const Row& row(DType dtype) {
  GENESIS_ASSERT(static_cast<int>(dtype) < kNumDTypes);
  return kRows[static_cast<size_t>(dtype)];
}

DType promote_floats(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  return DType::f32;
}

DType promote_integers(DType a, DType b) {
  if (a == b) return a;
  const bool mixed_signs = a == DType::u8 || b == DType::u8;
  const DType wider = size_of(a) >= size_of(b) ? a : b;
  return mixed_signs && size_of(wider) == 1 ? DType::i16 : wider;
}

}  // namespace

size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if (is_float(a) && is_float(b)) return promote_floats(a, b);
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  return promote_integers(a, b);
}

}  // namespace genesis
