#include "backends/cpu/fused/tile_functions.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/simd/scalar_math.h"

namespace genesis::cpu {
namespace {

// Converts x to another lane type. A real that is out of range becomes the nearest integer, and NaN becomes 0 (PyTorch leaves
// both undefined).
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

// Wraps integers around as the type `Narrow` would, and keeps them in i64.
template <class Narrow>
void wrap(const TileCall& c) {
  const int64_t* in = static_cast<const int64_t*>(c.in[0]);
  int64_t* out = static_cast<int64_t*>(c.out);
  for (int64_t i = 0; i < c.n; ++i) out[i] = int64_t{static_cast<Narrow>(in[i])};
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

// Calls f with the C++ type of one element of a lane.
template <class F>
auto with_lane(LaneType lane, F&& f) {
  switch (lane) {
    case LaneType::kF32:
      return f(TypeTag<float>{});
    case LaneType::kF64:
      return f(TypeTag<double>{});
    case LaneType::kI64:
      return f(TypeTag<int64_t>{});
    case LaneType::kBool:
      break;
  }
  return f(TypeTag<bool>{});
}

// Calls f with the type of `dtype` if it is an integer type narrower than i64, the lane type of all integers; returns null for
// all other dtypes.
template <class F>
TileFunction with_narrow(DType dtype, F&& f) {
  return dispatch(dtype, [&]<class T>(TypeTag<T> tag) -> TileFunction {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) < sizeof(int64_t))
      return f(tag);
    return nullptr;
  });
}

}  // namespace

LaneType lane_of(DType dtype) {
  if (dtype == DType::f64) return LaneType::kF64;
  if (is_float(dtype)) return LaneType::kF32;
  return is_integer(dtype) ? LaneType::kI64 : LaneType::kBool;
}

DType dtype_of_lane(LaneType lane) {
  static constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i64, DType::boolean};
  return kTypes[static_cast<size_t>(lane)];
}

Formula find_formula(std::string_view name, LaneType lane) {
  if (lane == LaneType::kF64) return find_f64(name);
  if (lane == LaneType::kI64) return find_i64(name);
  if (lane == LaneType::kBool) return find_bool(name);
  const Formula unary = find_f32_unary(name);
  return unary ? unary : find_f32_binary(name);
}

TileFunction find_load(DType dtype) {
  return with_narrow(dtype, []<class T>(TypeTag<T>) { return convert<T, int64_t>; });
}

TileFunction find_store(DType dtype) {
  return with_narrow(dtype, []<class T>(TypeTag<T>) { return convert<int64_t, T>; });
}

TileFunction find_wrap(DType dtype) {
  return with_narrow(dtype, []<class T>(TypeTag<T>) { return wrap<T>; });
}

TileFunction find_convert(LaneType from, LaneType to) {
  if (from == to) return nullptr;
  return with_lane(from, [&]<class Source>(TypeTag<Source>) {
    return with_lane(to,
                     []<class Target>(TypeTag<Target>) -> TileFunction { return convert<Source, Target>; });
  });
}

TileFunction find_copy(LaneType lane) {
  return with_lane(lane, []<class T>(TypeTag<T>) -> TileFunction { return copy<T>; });
}

TileFunction find_constant(LaneType lane) {
  return with_lane(lane, []<class T>(TypeTag<T>) -> TileFunction { return constant<T>; });
}

}  // namespace genesis::cpu
