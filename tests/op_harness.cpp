#include "tests/op_harness.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "executor/runtime/device.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/kernel_runs.h"
#include "tests/op_graph.h"

namespace genesis::testing {

int64_t Ref::numel() const {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

Ref ref_zeros(std::vector<int64_t> shape) {
  Ref ref{std::move(shape), {}};
  ref.data.assign(static_cast<size_t>(ref.numel()), 0.0);
  return ref;
}

std::vector<int64_t> unravel(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; flat /= shape[i]) index[i] = flat % shape[i];
  return index;
}

int64_t ravel(const std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  int64_t flat = 0;
  for (size_t i = 0; i < shape.size(); ++i) flat = flat * shape[i] + index[i];
  return flat;
}

CaseInput real(std::vector<int64_t> shape, double low, double high) {
  return {.dtype = DType::f32, .shape = std::move(shape), .low = low, .high = high};
}
CaseInput real_data(std::vector<int64_t> shape, std::vector<double> values) {
  return {.dtype = DType::f32, .shape = std::move(shape), .values = std::move(values)};
}
CaseInput constant_real(std::vector<int64_t> shape, double low, double high) {
  return {.dtype = DType::f32, .shape = std::move(shape), .low = low, .high = high, .differentiable = false};
}
CaseInput integers(std::vector<int64_t> shape, int64_t low, int64_t high, DType dtype) {
  return {.dtype = dtype,
          .shape = std::move(shape),
          .low = static_cast<double>(low),
          .high = static_cast<double>(high),
          .differentiable = false};
}
CaseInput integer_data(std::vector<int64_t> shape, std::vector<double> values, DType dtype) {
  return {.dtype = dtype, .shape = std::move(shape), .values = std::move(values), .differentiable = false};
}
CaseInput booleans(std::vector<int64_t> shape) {
  return {.dtype = DType::boolean, .shape = std::move(shape), .low = 0, .high = 2, .differentiable = false};
}

namespace {

NamedTensors run(const Built& built, SessionOptions options = {}) {
  Session session(built.model, std::move(options));
  return session.run("main", built.inputs);
}

void expect_same_bits(const NamedTensors& a, const NamedTensors& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    const Tensor& other = b.at(name);
    ASSERT_EQ(tensor.type(), other.type()) << what;
    const auto bytes = static_cast<size_t>(tensor.bytes());
    ASSERT_TRUE(bytes == 0 || std::memcmp(tensor.data(), other.data(), bytes) == 0)
        << what << ": " << name << " differs";
  }
}

std::string describe(const OpCase& op_case, DType real_dtype) {
  return op_case.name + " in " + std::string(name_of(real_dtype));
}

// Checks that results do not change a bit with the number of threads, memory reuse, or a round trip through a file.
void check_same_bits(const OpCase& op_case) {
  const Refs values = make_values(op_case, DType::f32);
  const bool with_gradient = op_case.gradient && has_differentiable_input(op_case);
  const Refs weights = with_gradient ? projection_weights(op_case.reference(values)) : Refs{};
  const Built built = build(op_case, values, DType::f32, with_gradient ? &weights : nullptr);
  const NamedTensors expected = run(built, {.threads = 1});
  expect_same_bits(run(built, {.threads = 2}), expected, op_case.name + " with 2 threads");
  expect_same_bits(run(built, {.threads = 4}), expected, op_case.name + " with 4 threads");
  expect_same_bits(run(built, {.disabled = {"in_place", "memory_reuse"}}), expected,
                   op_case.name + " without memory reuse");
  // Other processes may check a case of this name at the same time.
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / fmt::format("{}-{}.genesis", op_case.name, ::getpid());
  save_model(*built.model, path);
  Built loaded = built;
  loaded.model = load_model(path);
  std::filesystem::remove(path);
  expect_same_bits(run(loaded, {.threads = 1}), expected, op_case.name + " saved and loaded");
}

// --- numbers

// The results of a graph that are checked: for each output its expected values and the errors that are allowed.
struct Expectation {
  std::string output;
  Ref values, errors;
  Refs directions = {};  // not empty: of a gradient its products with these
};
struct Expected {
  std::string what;
  Built built;
  std::vector<Expectation> outputs;
  bool is_plain_too = false;  // it also runs without the passes
};

// Returns the products of x with the directions; x itself if there are none.
Ref along(const Ref& x, const Refs& directions) {
  if (directions.empty()) return x;
  Ref products = ref_zeros({static_cast<int64_t>(directions.size())});
  for (size_t k = 0; k < directions.size(); ++k)
    for (size_t i = 0; i < x.data.size(); ++i) products.data[k] += x.data[i] * directions[k].data[i];
  return products;
}

void expect_within(const Ref& got, const Expectation& expected, const std::string& what) {
  ASSERT_EQ(got.shape, expected.values.shape) << what << ": shape";
  for (size_t i = 0; i < got.data.size(); ++i) {
    const double g = got.data[i], e = expected.values.data[i];
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    ASSERT_LE(std::abs(g - e), expected.errors.data[i])
        << what << ", " << expected.output << ": element " << i << " is " << g << ", expected " << e;
  }
}

// Returns tolerance * max(1, |value|) for each value.
Ref relative_errors(Ref values, double tolerance) {
  for (double& v : values.data) v = tolerance * std::max(1.0, std::abs(v));
  return values;
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

// Returns the errors that roundings of these terms may amount to.
Ref errors_of_terms(Ref terms, DType dtype, double smallest) {
  for (double& v : terms.data) v = kRoundings * epsilon_of(dtype) * v + smallest;
  return terms;
}

double tolerance_in(const OpCase& op_case, DType dtype) {
  if (dtype == DType::f64) return op_case.tolerance_f64;
  return dtype == DType::f32 ? op_case.tolerance : op_case.tolerance_low;
}

// The smallest number above 0 that f16 holds; sums of smaller terms are lost.
constexpr double kSmallestHalf = 0x1p-24;

Expected expect_values(const OpCase& op_case, DType real_dtype) {
  const Refs values = make_values(op_case, real_dtype), results = op_case.reference(values);
  const bool by_terms = op_case.terms && real_dtype != DType::f64;
  const Refs terms = by_terms ? op_case.terms(values) : Refs{};
  Expected expected{describe(op_case, real_dtype), build(op_case, values, real_dtype, nullptr), {}};
  EXPECT_EQ(expected.built.outputs.size(), results.size()) << expected.what << ": number of outputs";
  for (size_t i = 0; i < results.size() && i < expected.built.outputs.size(); ++i)
    expected.outputs.push_back({expected.built.outputs[i], results[i],
                                by_terms ? errors_of_terms(terms[i], real_dtype, kSmallestHalf)
                                         : relative_errors(results[i], tolerance_in(op_case, real_dtype))});
  return expected;
}

double project(const Refs& outputs, const Refs& weights, const std::vector<bool>& counts) {
  double total = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t k = 0; counts[i] && k < outputs[i].data.size(); ++k)
      total += outputs[i].data[k] * weights[i].data[k];
  return total;
}

// Computes d(projection)/d(input i) by central differences of the reference.
Ref finite_difference(const std::function<Refs(const Refs&)>& reference, Refs values, const Refs& weights,
                      const std::vector<bool>& counts, size_t i) {
  constexpr double kStep = 1e-5;
  Ref gradient = ref_zeros(values[i].shape);
  for (int64_t k = 0; k < gradient.numel(); ++k) {
    const double x = values[i][k];
    values[i][k] = x + kStep;
    const double above = project(reference(values), weights, counts);
    values[i][k] = x - kStep;
    const double below = project(reference(values), weights, counts);
    values[i][k] = x;
    gradient[k] = (above - below) / (2 * kStep);
  }
  return gradient;
}

// The gradients of a case, for all dtypes that start from the same values. Empty for inputs without a gradient.
struct Gradients {
  Refs values, weights, of_inputs, terms;
  std::vector<Refs> directions;  // per input; if not empty, of_inputs has the derivatives along them
};

// Returns vectors of length 1 with random signs.
Refs random_directions(const Ref& x, int64_t count) {
  std::mt19937_64 random(7);
  const double size = 1 / std::sqrt(std::max<double>(1, static_cast<double>(x.numel())));
  Refs directions(static_cast<size_t>(count), x);
  for (Ref& direction : directions)
    for (double& v : direction.data) v = random() % 2 ? size : -size;
  return directions;
}

// Computes the derivatives of the projection along directions of input i by central differences.
Ref directional_difference(const std::function<Refs(const Refs&)>& reference, const Refs& values,
                           const Refs& weights, const std::vector<bool>& counts, size_t i,
                           const Refs& directions) {
  constexpr double kStep = 1e-5;
  Ref derivatives = ref_zeros({static_cast<int64_t>(directions.size())});
  for (size_t k = 0; k < directions.size(); ++k) {
    const auto at = [&](double step) {
      Refs moved = values;
      for (size_t j = 0; j < moved[i].data.size(); ++j) moved[i].data[j] += step * directions[k].data[j];
      return project(reference(moved), weights, counts);
    };
    derivatives.data[k] = (at(kStep) - at(-kStep)) / (2 * kStep);
  }
  return derivatives;
}

Gradients differentiate(const OpCase& op_case, DType real_dtype) {
  Gradients made{make_values(op_case, real_dtype), {}, {}, {}};
  made.weights = projection_weights(op_case.reference(made.values));
  const Built built = build(op_case, made.values, real_dtype, nullptr);
  const Graph& graph = built.model->entry("main");
  std::vector<bool> counts;
  for (const NamedValue& output : graph.outputs()) counts.push_back(is_float(graph.type(output.value).dtype));
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const bool is_wanted = op_case.inputs[i].differentiable;
    made.directions.push_back(is_wanted ? random_directions(made.values[i], op_case.directions) : Refs{});
    const auto difference = [&](const auto& reference) {
      if (!is_wanted) return Ref{};
      if (op_case.directions == 0) return finite_difference(reference, made.values, made.weights, counts, i);
      return directional_difference(reference, made.values, made.weights, counts, i, made.directions[i]);
    };
    made.of_inputs.push_back(difference(op_case.reference));
    if (op_case.terms_of_gradient) made.terms.push_back(difference(op_case.terms));
  }
  return made;
}

double largest_of(const Ref& values) {
  double largest = 0;
  for (const double v : values.data) largest = std::max(largest, std::abs(v));
  return largest;
}

// Returns the errors allowed for a gradient. In 16 bits they are relative to the gradient's largest entry, since sums cancel,
// unless the terms of the sums are known.
Ref gradient_errors(const OpCase& op_case, DType dtype, const Gradients& gradients, size_t i) {
  const Ref& gradient = gradients.of_inputs[i];
  if (op_case.directions > 0) {
    const double tolerance = dtype == DType::f64   ? op_case.tolerance_gradient
                             : dtype == DType::f32 ? 10 * op_case.tolerance
                                                   : op_case.tolerance_low;
    Ref errors = gradient;
    errors.data.assign(errors.data.size(), tolerance * largest_of(gradient));
    return errors;
  }
  const double largest = std::max(1.0, largest_of(gradient));
  if (dtype == DType::f64) return relative_errors(gradient, op_case.tolerance_gradient);
  if (op_case.terms_of_gradient) {
    Ref terms = gradients.terms[i];
    for (double& v : terms.data) v = std::abs(v);
    return errors_of_terms(terms, dtype, op_case.tolerance_gradient / 20 * largest);
  }
  if (dtype == DType::f32)
    return relative_errors(gradient, std::max(op_case.tolerance_gradient, 10 * op_case.tolerance));
  Ref errors = gradient;
  errors.data.assign(errors.data.size(), op_case.tolerance_low * largest);
  return errors;
}

Expected expect_gradients(const OpCase& op_case, DType real_dtype, const Gradients& gradients) {
  Expected expected{"gradient of " + describe(op_case, real_dtype),
                    build(op_case, gradients.values, real_dtype, &gradients.weights),
                    {}};
  for (size_t i = 0; i < expected.built.gradients.size(); ++i)
    if (!expected.built.gradients[i].empty())
      expected.outputs.push_back({expected.built.gradients[i], gradients.of_inputs[i],
                                  gradient_errors(op_case, real_dtype, gradients, i),
                                  gradients.directions[i]});
  return expected;
}

void check_on(const std::string& device, const Expected& expected) {
  const auto check = [&](const NamedTensors& results, const std::string& how) {
    for (const Expectation& output : expected.outputs)
      expect_within(along(ref_of(results.at(output.output)), output.directions), output,
                    expected.what + " on " + device + how);
  };
  const Built& built = expected.built;
  run_by_every_implementation(built.model, built.inputs, {.device = device}, check);
  const auto plainly = [&](const NamedTensors& results, const std::string&) {
    check(results, ", not optimized");
  };
  if (expected.is_plain_too)
    run_by_first_implementations(built.model, built.inputs, {.device = device, .optimize = false}, plainly);
}

// Makes the plans for a device that this machine does not have.
void plan_on(const std::string& device, const Expected& expected) {
  plan_by_every_implementation(*expected.built.model, expected.built.inputs, {.device = device});
  if (expected.is_plain_too)
    plan_by_every_implementation(*expected.built.model, expected.built.inputs,
                                 {.device = device, .optimize = false});
}

// Returns what is checked in every precision.
std::vector<Expected> expectations(const OpCase& op_case) {
  bool has_real = false;
  for (const CaseInput& input : op_case.inputs) has_real = has_real || is_real(input);
  const bool low = op_case.low_precision && has_real;
  std::vector<Expected> all = {expect_values(op_case, DType::f32)};
  all[0].is_plain_too = true;
  if (op_case.f64) all.push_back(expect_values(op_case, DType::f64));
  for (const DType dtype : {DType::bf16, DType::f16})
    if (low) all.push_back(expect_values(op_case, dtype));
  if (!op_case.gradient || !has_differentiable_input(op_case)) return all;
  const Gradients gradients = differentiate(op_case, DType::f32);
  if (op_case.f64) all.push_back(expect_gradients(op_case, DType::f64, gradients));
  all.push_back(expect_gradients(op_case, DType::f32, gradients));
  all.back().is_plain_too = true;
  if (!low || !op_case.low_gradient) return all;
  const Gradients rounded = differentiate(op_case, DType::bf16);
  for (const DType dtype : {DType::bf16, DType::f16})
    all.push_back(expect_gradients(op_case, dtype, rounded));
  return all;
}

}  // namespace

OpCase with_terms(OpCase op_case) {
  op_case.terms = [reference = op_case.reference](Refs values) {
    for (Ref& value : values)
      for (double& v : value.data) v = std::abs(v);
    return reference(values);
  };
  op_case.terms_of_gradient = true;
  return op_case;
}

void check(const OpCase& op_case) {
  SCOPED_TRACE(op_case.name);
  for (const Expected& expected : expectations(op_case)) {
    check_on("cpu", expected);
    if (!op_case.on_gpus) continue;
    if (why_no_cuda().empty())
      check_on("cuda", expected);
    else if (GENESIS_HAVE_CUDA)
      plan_on("cuda", expected);
  }
  check_same_bits(op_case);
}

const std::string& why_no_cuda() {
  static const std::string reason = [] {
    try {
      open_device("cuda", 0);
      return std::string();
    } catch (const Error& error) {
      return error.message();
    }
  }();
  return reason;
}

NamedTensors run_graph(const std::vector<std::pair<std::string, Tensor>>& inputs,
                       const std::function<std::vector<std::pair<std::string, Value>>(const Inputs&)>& build,
                       const SessionOptions& options) {
  auto model = std::make_shared<Model>();
  Graph& graph = model->add_entry("main");
  Inputs values{graph, {}};
  NamedTensors tensors;
  for (const auto& [name, tensor] : inputs) {
    values.values.push_back(graph.add_input(name, tensor.type()));
    tensors.emplace(name, tensor);
  }
  for (const auto& [name, value] : build(values)) graph.add_output(name, value);
  Session session(model, options);
  return session.run("main", tensors);
}

void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts) {
  try {
    body();
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(error.message().find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.message();
    return;
  }
  ADD_FAILURE() << "no error was thrown; expected one that says '" << (parts.empty() ? "" : parts[0]) << "'";
}

std::vector<TensorType> infer_case(const std::vector<TensorType>& inputs,
                                   const std::function<Outputs(const Inputs&)>& build) {
  Model model;
  Graph& graph = model.add_entry("main");
  Inputs values{graph, {}};
  for (size_t i = 0; i < inputs.size(); ++i)
    values.values.push_back(graph.add_input("x" + std::to_string(i), inputs[i]));
  std::vector<TensorType> types;
  for (const Value& value : build(values)) types.push_back(value.type());
  return types;
}

}  // namespace genesis::testing
