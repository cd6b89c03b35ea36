// Models with loops whose number of steps depends on data, for tests of all devices.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "executor/session.h"

namespace genesis::testing {

using Doubles = std::vector<double>;

// Doubles x and adds @w and 10 times the step's number while the sum of x is below `below`, and counts.
constexpr const char* kDoubling = R"(
state @w: f32[3] parameter trainable = (1.0, 2.0, 3.0)
entry forward(x: f32[3], below: f32[], most: i64[]) {
  %start = sum(x)
  %goes_on = lt(%start, below)
  %zero = full() {dtype=i64, value=0}
  %y = loop(%goes_on, most, x, %zero, below) {carried=2, entry="step"}
  %z = mul(%y, @w)
  return y = %y
  return count = %y:1
  return z = %z
}
entry step(number: i64[], x: f32[3], count: i64[], below: f32[]) {
  %two = full() {value=2.0}
  %doubled = mul(x, %two)
  %real = cast(number) {dtype=f32}
  %ten = full() {value=10.0}
  %tens = mul(%real, %ten)
  %sum = add(%doubled, @w)
  %next = add(%sum, %tens)
  %total = sum(%next)
  %goes_on = lt(%total, below)
  %one = full() {dtype=i64, value=1}
  %more = add(count, %one)
  return goes_on = %goes_on
  return x = %next
  return count = %more
}
)";

inline NamedTensors doubling_inputs(const Doubles& x, float below, int64_t most) {
  return {{"x", Tensor::of(std::vector<float>(x.begin(), x.end()))},
          {"below", Tensor::scalar(below)},
          {"most", Tensor::scalar(most)}};
}

struct Doubled {
  Doubles x;
  int64_t count = 0;
};
inline Doubled doubled(Doubles x, double below, int64_t most) {
  Doubled result{x};
  const auto total = [&] { return result.x[0] + result.x[1] + result.x[2]; };
  while (result.count < most && total() < below) {
    for (size_t i = 0; i < 3; ++i)
      result.x[i] = result.x[i] * 2 + static_cast<double>(i + 1) + 10 * static_cast<double>(result.count);
    ++result.count;
  }
  return result;
}

inline void expect_doubles(Session& session, const Doubles& x, float below, int64_t most) {
  const auto [y, count] = doubled(x, below, most);
  NamedTensors found = session.run("forward", doubling_inputs(x, below, most));
  EXPECT_EQ(found["y"].to_doubles(), y);
  EXPECT_EQ(found["count"].as<int64_t>()[0], count);
  EXPECT_EQ(found["z"].to_doubles()[2], y[2] * 3);
}

// A loop of `inner` steps in each of `outer` steps, and an index that may be out of range.
constexpr const char* kNestedLoops = R"(
entry forward(outer: i64[], inner: i64[], table: f32[4]) {
  %yes = full() {dtype=bool, value=1}
  %zero = full() {value=0.0}
  %y = loop(%yes, outer, %zero, inner, table) {carried=1, entry="around"}
  return y = %y
}
entry around(number: i64[], x: f32[], inner: i64[], table: f32[4]) {
  %yes = full() {dtype=bool, value=1}
  %y = loop(%yes, inner, x, number, table) {carried=1, entry="within"}
  return goes_on = %yes
  return x = %y
}
entry within(number: i64[], x: f32[], outer: i64[], table: f32[4]) {
  %yes = full() {dtype=bool, value=1}
  %at = add(number, outer)
  %places = reshape(%at) {shape=[1]}
  %entry = index_select(table, %places) {axis=0}
  %found = reshape(%entry) {shape=[]}
  %y = add(x, %found)
  return goes_on = %yes
  return x = %y
}
)";

// Three carried values change places, the last one becomes the number of the step, and two of them are collected: one as the step gets it, one
// as it gives it.
constexpr const char* kRotation = R"(
entry forward(a: f32[2], b: f32[2], c: f32[2], d: i64[], most: i64[], before: f32[4,2], after: f32[4,2]) {
  %yes = full() {dtype=bool, value=1}
  %y = loop(%yes, most, a, b, c, d, before, after) {carried=4, collected=2, entry="rotate"}
  return a_end = %y
  return b_end = %y:1
  return c_end = %y:2
  return d_end = %y:3
  return before_end = %y:4
  return after_end = %y:5
  return count = %y:6
}
entry rotate(number: i64[], a: f32[2], b: f32[2], c: f32[2], d: i64[]) {
  %yes = full() {dtype=bool, value=1}
  %sum = add(b, b)
  return goes_on = %yes
  return a = b
  return b = c
  return c = a
  return d = number
  return before = a
  return after = %sum
}
)";

inline NamedTensors rotation_inputs(int64_t most) {
  return {{"a", Tensor::of(std::vector<float>{1, 2})},
          {"b", Tensor::of(std::vector<float>{3, 4})},
          {"c", Tensor::of(std::vector<float>{5, 6})},
          {"d", Tensor::scalar(int64_t{7})},
          {"most", Tensor::scalar(most)},
          {"before", Tensor::of<float>({4, 2}, std::vector<float>(8, -1))},
          {"after", Tensor::of<float>({4, 2}, std::vector<float>(8, -2))}};
}

struct Rotated {
  std::vector<Doubles> abc = {{1, 2}, {3, 4}, {5, 6}};
  int64_t d = 7;
  Doubles before = Doubles(8, -1), after = Doubles(8, -2);  // rows behind the last step stay as they came
};
inline Rotated rotated(int64_t steps) {
  Rotated result;
  for (int64_t step = 0; step < steps; ++step) {
    for (size_t i = 0; i < 2; ++i) {
      result.before[static_cast<size_t>(step) * 2 + i] = result.abc[0][i];
      result.after[static_cast<size_t>(step) * 2 + i] = 2 * result.abc[1][i];
    }
    std::ranges::rotate(result.abc, result.abc.begin() + 1);
    result.d = step;
  }
  return result;
}

inline void expect_rotates(Session& session, int64_t most) {
  NamedTensors found = session.run("forward", rotation_inputs(most));
  const Rotated wanted = rotated(most);
  EXPECT_EQ(found["a_end"].to_doubles(), wanted.abc[0]) << most;
  EXPECT_EQ(found["b_end"].to_doubles(), wanted.abc[1]) << most;
  EXPECT_EQ(found["c_end"].to_doubles(), wanted.abc[2]) << most;
  EXPECT_EQ(found["d_end"].as<int64_t>()[0], wanted.d) << most;
  EXPECT_EQ(found["before_end"].to_doubles(), wanted.before) << most;
  EXPECT_EQ(found["after_end"].to_doubles(), wanted.after) << most;
  EXPECT_EQ(found["count"].as<int64_t>()[0], most);
}

}  // namespace genesis::testing
