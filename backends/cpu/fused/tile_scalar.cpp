// Tile functions on f64, i64 and bool: plain loops over the formulas.
#include "backends/cpu/fused/tile_functions.h"

#include "backends/cpu/simd/scalar_math.h"

namespace genesis::cpu {
namespace {

using scalar::Integer;

template <class T>
struct Operand {
  const T* p;
  int64_t step;
  Operand(const TileCall& c, size_t i) : p(static_cast<const T*>(c.in[i])), step(c.scalar[i] ? 0 : 1) {}
  const T& at(int64_t i) const { return p[i * step]; }
};

template <class F, class... In>
void loop(const TileCall& c, F f, In... in) {
  using Result = decltype(f(in.at(0)...));
  auto* out = static_cast<std::conditional_t<std::is_same_v<Result, bool>, uint8_t, Result>*>(c.out);
  for (int64_t i = 0; i < c.n; ++i) out[i] = f(in.at(i)...);
}

template <class F, class T>
void run_unary(const TileCall& c) {
  loop(c, F(), Operand<T>(c, 0));
}
template <class F, class T>
void run_unary1(const TileCall& c) {
  const T p(c.parameters[0]);
  loop(
      c, [p](T x) { return F()(x, p); }, Operand<T>(c, 0));
}
template <class F, class T>
void run_unary2(const TileCall& c) {
  const T p(c.parameters[0]), q(c.parameters[1]);
  loop(
      c, [p, q](T x) { return F()(x, p, q); }, Operand<T>(c, 0));
}
template <class F, class T>
void run_binary(const TileCall& c) {
  loop(c, F(), Operand<T>(c, 0), Operand<T>(c, 1));
}
template <class T>
void run_where(const TileCall& c) {
  loop(
      c, [](uint8_t m, T a, T b) { return m ? a : b; }, Operand<uint8_t>(c, 0), Operand<T>(c, 1),
      Operand<T>(c, 2));
}
template <class F, class T>
void run_division(const TileCall& c) {
  const Operand<T> b(c, 1);
  for (int64_t i = 0; i < c.n; ++i)
    if (b.at(i).v == 0) c.fault->report("integer division by zero");
  run_binary<F, T>(c);
}
// Clamps integers to real bounds: an integer is inside the bounds exactly if it is inside ceil(low) and floor(high).
void clamp_integers(const TileCall& c) {
  const Integer low(std::ceil(c.parameters[0])), high(std::floor(c.parameters[1]));
  loop(
      c, [=](Integer x) { return scalar::clamp(x, low, high); }, Operand<Integer>(c, 0));
}
template <class F>
void run_logic(const TileCall& c) {
  loop(c, F(), Operand<uint8_t>(c, 0), Operand<uint8_t>(c, 1));
}
void run_not(const TileCall& c) {
  loop(
      c, [](uint8_t x) { return x == 0; }, Operand<uint8_t>(c, 0));
}

struct Row {
  std::string_view name;
  TileFunction run;
  LaneType result;
};

template <size_t N>
Formula find(const Row (&rows)[N], std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return {.run = row.run, .result = row.result};
  return {};
}

#define GENESIS_ROW(name, loop, T, result)                                                     \
  {                                                                                            \
#name, loop < decltype([](auto... x) { return scalar::name(x...); }), T>, LaneType::result \
  }
#define GENESIS_F64(name) GENESIS_ROW(name, run_unary, double, kF64)
#define GENESIS_F64_2(name) GENESIS_ROW(name, run_binary, double, kF64)
#define GENESIS_I64(name) GENESIS_ROW(name, run_unary, Integer, kI64)
#define GENESIS_I64_2(name) GENESIS_ROW(name, run_binary, Integer, kI64)
#define GENESIS_TEST(name, T) GENESIS_ROW(name, run_binary, T, kBool)

constexpr Row kF64Rows[] = {
    GENESIS_F64(neg),
    GENESIS_F64(abs),
    GENESIS_F64(square),
    GENESIS_F64(sign),
    GENESIS_F64(floor),
    GENESIS_F64(ceil),
    GENESIS_F64(round),
    GENESIS_F64(exp),
    GENESIS_F64(log),
    GENESIS_F64(log1p),
    GENESIS_F64(expm1),
    GENESIS_F64(sqrt),
    GENESIS_F64(rsqrt),
    GENESIS_F64(reciprocal),
    GENESIS_F64(sin),
    GENESIS_F64(cos),
    GENESIS_F64(tan),
    GENESIS_F64(asin),
    GENESIS_F64(acos),
    GENESIS_F64(atan),
    GENESIS_F64(sinh),
    GENESIS_F64(cosh),
    GENESIS_F64(tanh),
    GENESIS_F64(erf),
    GENESIS_F64(sigmoid),
    GENESIS_F64(relu),
    GENESIS_F64(silu),
    GENESIS_F64(gelu),
    GENESIS_F64(gelu_tanh),
    GENESIS_F64(hardswish),
    GENESIS_F64(mish),
    GENESIS_ROW(leaky_relu, run_unary1, double, kF64),
    GENESIS_ROW(elu, run_unary1, double, kF64),
    GENESIS_ROW(softplus, run_unary2, double, kF64),
    GENESIS_ROW(clamp, run_unary2, double, kF64),
    GENESIS_ROW(isnan, run_unary, double, kBool),
    GENESIS_ROW(isinf, run_unary, double, kBool),
    GENESIS_ROW(isfinite, run_unary, double, kBool),
    GENESIS_F64_2(add),
    GENESIS_F64_2(sub),
    GENESIS_F64_2(mul),
    GENESIS_F64_2(div),
    GENESIS_F64_2(maximum),
    GENESIS_F64_2(minimum),
    GENESIS_F64_2(floordiv),
    GENESIS_F64_2(remainder),
    GENESIS_F64_2(pow),
    GENESIS_F64_2(atan2),
    GENESIS_TEST(eq, double),
    GENESIS_TEST(ne, double),
    GENESIS_TEST(lt, double),
    GENESIS_TEST(le, double),
    GENESIS_TEST(gt, double),
    GENESIS_TEST(ge, double),
    {"where", run_where<double>, LaneType::kF64},
};

constexpr Row kI64Rows[] = {
    GENESIS_I64(neg),
    GENESIS_I64(abs),
    GENESIS_I64(square),
    GENESIS_I64(sign),
    GENESIS_I64(floor),
    GENESIS_I64(ceil),
    GENESIS_I64(round),
    GENESIS_I64(relu),
    GENESIS_I64_2(add),
    GENESIS_I64_2(sub),
    GENESIS_I64_2(mul),
    GENESIS_I64_2(maximum),
    GENESIS_I64_2(minimum),
    GENESIS_I64_2(pow),
    GENESIS_ROW(floordiv, run_division, Integer, kI64),
    GENESIS_ROW(remainder, run_division, Integer, kI64),
    GENESIS_TEST(eq, Integer),
    GENESIS_TEST(ne, Integer),
    GENESIS_TEST(lt, Integer),
    GENESIS_TEST(le, Integer),
    GENESIS_TEST(gt, Integer),
    GENESIS_TEST(ge, Integer),
    {"clamp", clamp_integers, LaneType::kI64},
    {"where", run_where<Integer>, LaneType::kI64},
};

constexpr Row kBoolRows[] = {
    {"logical_not", run_not, LaneType::kBool},
    {"logical_and", run_logic<decltype([](uint8_t a, uint8_t b) { return (a & b) != 0; })>, LaneType::kBool},
    {"logical_or", run_logic<decltype([](uint8_t a, uint8_t b) { return (a | b) != 0; })>, LaneType::kBool},
    {"where", run_where<uint8_t>, LaneType::kBool},
};

}  // namespace

Formula find_f64(std::string_view name) { return find(kF64Rows, name); }
Formula find_i64(std::string_view name) { return find(kI64Rows, name); }
Formula find_bool(std::string_view name) { return find(kBoolRows, name); }

}  // namespace genesis::cpu
