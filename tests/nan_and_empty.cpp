#include "tests/nan_and_empty.h"

#include <cmath>
#include <limits>

#include "tests/kernel_runs.h"
#include "tests/op_graph.h"

namespace genesis::testing {
namespace {

char letter_of(double v) {
  if (std::isnan(v)) return 'n';
  if (std::isinf(v)) return v < 0 ? '-' : '+';
  return v >= 0 && v < 10 && v == std::floor(v) ? static_cast<char>('0' + static_cast<int>(v)) : '.';
}

std::string letters_of(const std::vector<double>& values) {
  std::string letters;
  for (const double v : values) letters += letter_of(v);
  return letters;
}

bool is_like(const std::string& got, const std::string& expected) {
  if (got.size() != expected.size()) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool is_finite = got[i] == '.' || std::isdigit(static_cast<unsigned char>(got[i]));
    if (expected[i] == '.' ? !is_finite : got[i] != expected[i]) return false;
  }
  return true;
}

void expect_letters_in(const OpCase& op_case, DType dtype, const std::vector<std::string>& letters) {
  const Built built = build(op_case, make_values(op_case, dtype), dtype, nullptr);
  ASSERT_EQ(built.outputs.size(), letters.size()) << op_case.name;
  const auto compare = [&](const std::string& how, const NamedTensors& results) {
    for (size_t i = 0; i < letters.size(); ++i) {
      const std::string got = letters_of(results.at(built.outputs[i]).to_doubles());
      EXPECT_TRUE(is_like(got, letters[i])) << op_case.name << " in " << name_of(dtype) << how << ", output "
                                            << i << " is " << got << ", not " << letters[i];
    }
  };
  for (const std::string device : {"cpu", "cuda"}) {
    if (device == "cuda" && !why_no_cuda().empty()) {
      if (GENESIS_HAVE_CUDA) plan_by_every_implementation(*built.model, built.inputs, {.device = device});
      continue;
    }
    const auto check = [&](const NamedTensors& results, const std::string& how) {
      compare(" on " + device + how, results);
    };
    const auto check_plain = [&](const NamedTensors& results, const std::string&) {
      compare(" on " + device + ", not optimized", results);
    };
    run_by_every_implementation(built.model, built.inputs, {.device = device}, check);
    run_by_first_implementations(built.model, built.inputs, {.device = device, .optimize = false},
                                 check_plain);
  }
}

}  // namespace

CaseInput some_numbers(std::vector<int64_t> shape, bool has_nan) {
  CaseInput input = real(std::move(shape));
  const int64_t count = Shape::of(input.shape).numel().value();
  for (int64_t i = 0; i < count; ++i) input.values.push_back(0.5 + static_cast<double>(i % 12) / 8);
  if (has_nan) input.values[1] = std::numeric_limits<double>::quiet_NaN();
  return input;
}

void expect_letters(const OpCase& op_case, const std::vector<std::string>& letters) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) expect_letters_in(op_case, dtype, letters);
  if (op_case.f64) expect_letters_in(op_case, DType::f64, letters);
}

void check_nan_and_empty(std::span<const NanAndEmptyRow> rows) {
  for (const NanAndEmptyRow& row : rows) {
    OpCase one{.name = std::string(row.op),
               .inputs = row.inputs,
               .build = row.build,
               .reference = {},
               .f64 = row.has_f64};
    if (!row.letters.empty()) {
      one.inputs[0].values[1] = std::numeric_limits<double>::quiet_NaN();
      expect_letters(one, row.letters);
    }
    for (const EmptyCase& empty : row.empty) {
      one.inputs = row.inputs;
      for (size_t i = 0; i < one.inputs.size(); ++i) {
        one.inputs[i].shape = empty.shapes[i];
        one.inputs[i].values.resize(static_cast<size_t>(Shape::of(empty.shapes[i]).numel().value()), 1);
      }
      expect_letters(one, empty.letters);
    }
  }
}

}  // namespace genesis::testing
