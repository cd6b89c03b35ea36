// The sizes of a recurrent node and the arithmetic of its cells at one element of the state, the same on every device.
#pragma once

#include <cmath>

#include "backends/kernel.h"
#include "schema/core/philox.h"
#include "schema/ops/nn/recurrent.h"

namespace genesis {

// Returns exp(x), in f32 by operations that compilers turn into vector code; 0 or the greatest numbers at the ends of the range.
GENESIS_HOST_DEVICE inline float gate_exp(float x) {
  const float low = x < -87.0f ? -87.0f : x, limited = low > 88.0f ? 88.0f : low;
  const float shifted = limited * 1.44269504f + 12582912.0f,
              n = shifted - 12582912.0f;                              // n: rounded to an integer
  const float r = (limited - n * 0.693359375f) + n * 2.12194440e-4f;  // |r| <= ln(2) / 2
  float p = 0.008333334f + r * 0.0013888889f;
  p = 0.041666668f + r * p;
  p = 0.16666667f + r * p;
  p = 0.5f + r * p;
  p = 1.0f + r * p;
  p = 1.0f + r * p;
  return p * float_of((bits_of(shifted) << 23) + 0x3f800000u);
}
GENESIS_HOST_DEVICE inline double gate_exp(double x) { return std::exp(x); }

template <class T>
GENESIS_HOST_DEVICE inline T logistic(T x) {
  return T(1) / (T(1) + gate_exp(-x));
}
// The quotient cancels near 0, where the series of tanh is exact to the last bits.
GENESIS_HOST_DEVICE inline float hyperbolic(float x) {
  const float s = x * x, near = x * (1.0f + s * (-0.33333333f + s * (0.13333333f - s * 0.053968254f)));
  const float far = 1.0f - 2.0f / (1.0f + gate_exp(2.0f * x));
  return s < 0.03f ? near : far;
}
GENESIS_HOST_DEVICE inline double hyperbolic(double x) { return std::tanh(x); }

// The values of an lstm or a gru at one element of the state.
template <class T>
struct LstmValues {
  T i, f, g, o, c;
};
template <class T>
struct GruValues {
  T r, z, n, p;  // p: the product of the state for the new gate, with its bias
};

template <class T>
GENESIS_HOST_DEVICE inline LstmValues<T> lstm_values(T i, T f, T g, T o, T c_before) {
  LstmValues<T> v{logistic(i), logistic(f), hyperbolic(g), logistic(o), T(0)};
  v.c = v.f * c_before + v.i * v.g;
  return v;
}
// Returns the gradients of the four sums in i to o, and that of c before the step in c.
template <class T>
GENESIS_HOST_DEVICE inline LstmValues<T> lstm_gradients(const LstmValues<T>& v, T c_before, T dh, T dc) {
  const T shown = hyperbolic(v.c), whole = dc + dh * v.o * (T(1) - shown * shown);
  return {whole * v.g * v.i * (T(1) - v.i), whole * c_before * v.f * (T(1) - v.f),
          whole * v.i * (T(1) - v.g * v.g), dh * shown * v.o * (T(1) - v.o), whole * v.f};
}

template <class T>
GENESIS_HOST_DEVICE inline GruValues<T> gru_values(T r, T z, T x_new, T p_new) {
  GruValues<T> v{logistic(r), logistic(z), T(0), p_new};
  v.n = hyperbolic(x_new + v.r * p_new);
  return v;
}
template <class T>
GENESIS_HOST_DEVICE inline T gru_state(const GruValues<T>& v, T h_before) {
  return (T(1) - v.z) * v.n + v.z * h_before;
}
// Returns the gradients of the three sums in r, z and n, and that of the product of the state for the new gate in p.
template <class T>
GENESIS_HOST_DEVICE inline GruValues<T> gru_gradients(const GruValues<T>& v, T h_before, T dh) {
  const T of_new = dh * (T(1) - v.z) * (T(1) - v.n * v.n);
  return {of_new * v.p * v.r * (T(1) - v.r), dh * (h_before - v.n) * v.z * (T(1) - v.z), of_new,
          of_new * v.r};
}

struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::kLstm;
  bool reverse = false;
  int64_t time = 0, batch = 0, hidden = 0, gates = 0;

  static RecurrentShape of(RecurrentCell cell, bool reverse, int64_t time, int64_t batch, int64_t hidden) {
    return {cell, reverse, time, batch, hidden, gates_of(cell)};
  }
  int64_t step(int64_t i) const { return reverse ? time - 1 - i : i; }  // the i-th step that is computed
  // The values kept for the gradient, for each element of the state.
  GENESIS_HOST_DEVICE int64_t saved() const {
    return cell == RecurrentCell::kLstm ? 5 : cell == RecurrentCell::kGru ? 4 : 1;
  }
  // Returns how many steps row b has; `lengths` may be null.
  GENESIS_HOST_DEVICE int64_t length(const int64_t* lengths, int64_t b) const {
    return lengths && lengths[b] < time ? lengths[b] : time;
  }
  // Returns true if no step of the row comes before step t.
  GENESIS_HOST_DEVICE bool is_first(int64_t t, int64_t length) const {
    return reverse ? t == length - 1 : t == 0;
  }
  GENESIS_HOST_DEVICE int64_t before(int64_t t) const { return reverse ? t + 1 : t - 1; }
};

}  // namespace genesis
