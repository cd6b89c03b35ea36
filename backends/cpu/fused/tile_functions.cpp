#include "backends/cpu/fused/tile_functions.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/fused/tile_scalar.h"
#include "backends/cpu/simd/scalar_math.h"

namespace genesis::cpu {
namespace {

// Out of range or NaN, a real gives the nearest integer or 0; PyTorch leaves it open.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>)
    return x != From(0);
  else if constexpr (std::is_same_v<To, int64_t> && std::is_floating_point_v<From>)
    return scalar::Integer::saturate(static_cast<double>(x));
  else
    return static_cast<To>(x);
}

template <class From, class To>
void convert(const TileCall& c) {
  const From* in = static_cast<const From*>(c.in[0]);
  To* out = static_cast<To*>(c.out);
  for (int64_t i = 0; i < c.n; ++i) out[i] = converted<To>(in[i]);
}

// Keeps what the narrow type can hold, in i64.
template <class Narrow>
void wrap(const TileCall& c) {
  const int64_t* in = static_cast<const int64_t*>(c.in[0]);
  int64_t* out = static_cast<int64_t*>(c.out);
  for (int64_t i = 0; i < c.n; ++i) out[i] = static_cast<Narrow>(in[i]);
}

template <class T>
void copy(const TileCall& c) {
  const T* in = static_cast<const T*>(c.in[0]);
  T* out = static_cast<T*>(c.out);
  const int64_t step = c.scalar[0] ? 0 : 1;
  for (int64_t i = 0; i < c.n; ++i) out[i] = in[i * step];
}

template <class T>
void constant(const TileCall& c) {
  const int64_t integer = std::bit_cast<int64_t>(c.parameters[0]);
  const T value = c.parameters[1] == 1 ? converted<T>(integer) : converted<T>(c.parameters[0]);
  std::fill_n(static_cast<T*>(c.out), c.n, value);
}

bool is_narrow_integer(DType dtype) { return is_integer(dtype) && dtype != DType::i64; }

// Calls f with the type that holds one element of a lane.
template <class F>
auto with_lane(Lane lane, F&& f) {
  switch (lane) {
    case Lane::kF32:
      return f(TypeTag<float>{});
    case Lane::kF64:
      return f(TypeTag<double>{});
    case Lane::kI64:
      return f(TypeTag<int64_t>{});
    case Lane::kBool:
      break;
  }
  return f(TypeTag<bool>{});
}

template <class F>
TileFunction with_narrow(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i8:
      return f(TypeTag<int8_t>{});
    case DType::u8:
      return f(TypeTag<uint8_t>{});
    case DType::i16:
      return f(TypeTag<int16_t>{});
    default:
      return f(TypeTag<int32_t>{});
  }
}

}  // namespace

Lane lane_of(DType dtype) {
  if (dtype == DType::f64) return Lane::kF64;
  if (is_float(dtype)) return Lane::kF32;
  return is_integer(dtype) ? Lane::kI64 : Lane::kBool;
}

DType dtype_of_lane(Lane lane) {
  static constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i64, DType::boolean};
  return kTypes[static_cast<size_t>(lane)];
}

Formula find_formula(std::string_view name, Lane lane) {
  if (lane == Lane::kF64) return find_f64(name);
  if (lane == Lane::kI64) return find_i64(name);
  if (lane == Lane::kBool) return find_bool(name);
  const Formula unary = find_f32_unary(name);
  return unary ? unary : find_f32_binary(name);
}

TileFunction find_load(DType dtype) {
  if (!is_narrow_integer(dtype)) return nullptr;
  return with_narrow(dtype,
                     [](auto tag) -> TileFunction { return convert<typename decltype(tag)::type, int64_t>; });
}

TileFunction find_store(DType dtype) {
  if (!is_narrow_integer(dtype)) return nullptr;
  return with_narrow(dtype,
                     [](auto tag) -> TileFunction { return convert<int64_t, typename decltype(tag)::type>; });
}

TileFunction find_wrap(DType dtype) {
  if (!is_narrow_integer(dtype)) return nullptr;
  return with_narrow(dtype, [](auto tag) -> TileFunction { return wrap<typename decltype(tag)::type>; });
}

TileFunction find_convert(Lane from, Lane to) {
  if (from == to) return nullptr;
  return with_lane(from, [&](auto source) {
    return with_lane(to, [](auto target) -> TileFunction {
      return convert<typename decltype(source)::type, typename decltype(target)::type>;
    });
  });
}

TileFunction find_copy(Lane lane) {
  return with_lane(lane, [](auto tag) -> TileFunction { return copy<typename decltype(tag)::type>; });
}

TileFunction find_constant(Lane lane) {
  return with_lane(lane, [](auto tag) -> TileFunction { return constant<typename decltype(tag)::type>; });
}

}  // namespace genesis::cpu
