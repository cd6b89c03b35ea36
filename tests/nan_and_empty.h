// Runs an op with a NaN among its numbers and with tensors of no elements, on every device and by every kernel implementation, and
// compares the kinds of its results. A test writes expected results in letters, one per element: n is NaN, - is minus infinity, a
// digit is this number, . is any finite number.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tests/op_harness.h"

namespace genesis::testing {

struct EmptyCase {
  std::vector<std::vector<int64_t>> shapes;  // input shapes that replace those of the row
  std::vector<std::string> letters;          // one text per output
};

struct NanAndEmptyRow {
  std::string_view op;
  std::vector<CaseInput> inputs;  // the second element of the first input becomes NaN
  std::function<Outputs(const Inputs&)> build;
  std::vector<std::string> letters;  // one text per output; none: there is no case with NaN
  std::vector<EmptyCase> empty = {};
  bool has_f64 = true;
};

// Returns numbers in [0.5, 2), the second of which is NaN if `has_nan`.
CaseInput some_numbers(std::vector<int64_t> shape, bool has_nan = false);
// Compares in f32, bf16 and f16, and in f64 if the case has it.
void expect_letters(const OpCase& op_case, const std::vector<std::string>& letters);
void check_nan_and_empty(std::span<const NanAndEmptyRow> rows);

// Returns the rows of nn/nan_and_empty_layers_test.cpp, for the test that every op has a row.
std::span<const NanAndEmptyRow> nan_and_empty_layers();

}  // namespace genesis::testing
