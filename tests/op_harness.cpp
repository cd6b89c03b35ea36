#include "tests/op_harness.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "executor/runtime/device.h"
#include "passes/training/autodiff.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/reduce.h"

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

Tensor tensor_of(const Ref& ref, DType dtype) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized({dtype, Shape::of(ref.shape)}, &data);
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < ref.data.size(); ++i) {
      T value;
      if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
        value = T(static_cast<float>(ref.data[i]));
      else
        value = static_cast<T>(ref.data[i]);
      reinterpret_cast<T*>(data)[i] = value;
    }
  });
  return tensor;
}

Ref ref_of(const Tensor& tensor) { return {tensor.type().shape.sizes(), tensor.to_doubles()}; }

bool is_real(const CaseInput& input) { return input.dtype == DType::f32; }

// Returns the dtype of an input in the variant of the case in which reals are `real_dtype`.
DType variant_dtype(const CaseInput& input, DType real_dtype) {
  return is_real(input) && !input.keep_dtype ? real_dtype : input.dtype;
}

double draw(const CaseInput& input, std::mt19937_64& random) {
  const double unit = std::uniform_real_distribution<double>(0, 1)(random);
  const double value = input.low + (input.high - input.low) * unit;
  return is_real(input) || input.dtype == DType::f64 ? value : std::floor(value);
}

// Returns the case's input values, rounded so that `real_dtype` holds them exactly: kernel and reference see the same
// numbers.
Refs make_values(const OpCase& op_case, DType real_dtype) {
  std::mt19937_64 random(std::hash<std::string>{}(op_case.name));
  Refs refs;
  for (const CaseInput& input : op_case.inputs) {
    Ref ref{input.shape, input.values};
    if (ref.data.empty())
      for (int64_t i = 0; i < ref.numel(); ++i) ref.data.push_back(draw(input, random));
    // f64 runs also start from f32 values, so that both variants compute the same function of the same inputs.
    const DType rounding = real_dtype == DType::f64 ? DType::f32 : real_dtype;
    refs.push_back(ref_of(tensor_of(ref, variant_dtype(input, rounding))));
  }
  return refs;
}

struct Built {
  std::shared_ptr<Model> model;
  NamedTensors inputs;
  std::vector<std::string> outputs, gradients;  // names; a gradient's name is empty if it is not wanted
};

// Computes sum_i sum(y_i * r_i) with fixed r: a scalar whose gradient depends on every output.
Value projection(Graph& graph, const Outputs& outputs, Built& built, const Refs& weights, DType dtype) {
  Value total;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].dtype())) continue;
    const std::string name = "projection" + std::to_string(i);
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    built.inputs[name] = tensor_of(weights[i], wide);
    const Value weight = graph.add_input(name, built.inputs[name].type());
    const Value term = sum(cast(outputs[i], wide) * weight);
    total = total ? total + term : term;
  }
  return total;
}

// Returns weights of the projection: distinct numbers around 1 that depend only on the shape.
Refs projection_weights(const Refs& outputs) {
  Refs weights = outputs;
  for (size_t i = 0; i < weights.size(); ++i)
    for (size_t k = 0; k < weights[i].data.size(); ++k)
      weights[i].data[k] =
          static_cast<float>(0.5 + std::fmod(static_cast<double>(k + i) * 0.618033988749895, 1.0));
  return weights;
}

Built build(const OpCase& op_case, const Refs& values, DType real_dtype, const Refs* weights) {
  Built built{std::make_shared<Model>(), {}, {}, {}};
  Graph& graph = built.model->add_entry("main");
  Inputs inputs{graph, {}};
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    built.inputs[name] = tensor_of(values[i], variant_dtype(op_case.inputs[i], real_dtype));
    inputs.values.push_back(graph.add_input(name, built.inputs[name].type()));
  }
  const Outputs outputs = op_case.build(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    built.outputs.push_back("y" + std::to_string(i));
    graph.add_output(built.outputs.back(), outputs[i]);
  }
  if (weights == nullptr) return built;
  const Value loss = projection(graph, outputs, built, *weights, real_dtype);
  std::vector<Value> wanted;
  for (size_t i = 0; i < inputs.values.size(); ++i)
    if (op_case.inputs[i].differentiable) wanted.push_back(inputs[i]);
  const std::vector<Value> gradients = passes::gradients(graph, loss, wanted);
  for (size_t i = 0, next = 0; i < inputs.values.size(); ++i) {
    built.gradients.push_back(op_case.inputs[i].differentiable ? "dx" + std::to_string(i) : "");
    if (op_case.inputs[i].differentiable) graph.add_output(built.gradients.back(), gradients[next++]);
  }
  return built;
}

NamedTensors run(const Built& built, SessionOptions options = {}) {
  Session session(built.model, std::move(options));
  return session.run("main", built.inputs);
}

// Gradients are compared relative to their largest entry, since sums cancel.
void expect_close(const Ref& got, const Ref& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.shape, expected.shape) << what << ": shape";
  for (size_t i = 0; i < got.data.size(); ++i) {
    const double g = got.data[i], e = expected.data[i];
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    ASSERT_LE(std::abs(g - e), tolerance * std::max(1.0, std::abs(e)))
        << what << ": element " << i << " is " << g << ", expected " << e;
  }
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

Refs outputs_of(const NamedTensors& results, const std::vector<std::string>& names) {
  Refs refs;
  for (const std::string& name : names) refs.push_back(ref_of(results.at(name)));
  return refs;
}

std::string describe(const OpCase& op_case, DType real_dtype, const SessionOptions& options) {
  return op_case.name + " in " + std::string(name_of(real_dtype)) + " on " + options.device;
}

void check_forward(const OpCase& op_case, DType real_dtype, double tolerance,
                   const SessionOptions& options = {}) {
  const std::string what = describe(op_case, real_dtype, options);
  const Refs values = make_values(op_case, real_dtype);
  const Refs expected = op_case.reference(values);
  const Built built = build(op_case, values, real_dtype, nullptr);
  const Refs got = outputs_of(run(built, options), built.outputs);
  ASSERT_EQ(got.size(), expected.size()) << what << ": number of outputs";
  for (size_t i = 0; i < got.size(); ++i) {
    // Indices and flags are exact; only reals may be rounded.
    expect_close(got[i], expected[i], tolerance, what + ", output " + std::to_string(i));
  }
}

double project(const Refs& outputs, const Refs& weights, const std::vector<bool>& counts) {
  double total = 0;
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t k = 0; counts[i] && k < outputs[i].data.size(); ++k)
      total += outputs[i].data[k] * weights[i].data[k];
  return total;
}

// Computes d(projection)/d(input i) by central differences of the reference.
Ref finite_difference(const OpCase& op_case, Refs values, const Refs& weights,
                      const std::vector<bool>& counts, size_t i) {
  constexpr double kStep = 1e-5;
  Ref gradient = ref_zeros(values[i].shape);
  for (int64_t k = 0; k < gradient.numel(); ++k) {
    const double x = values[i][k];
    values[i][k] = x + kStep;
    const double above = project(op_case.reference(values), weights, counts);
    values[i][k] = x - kStep;
    const double below = project(op_case.reference(values), weights, counts);
    values[i][k] = x;
    gradient[k] = (above - below) / (2 * kStep);
  }
  return gradient;
}

void check_gradient(const OpCase& op_case, DType real_dtype, double tolerance,
                    const SessionOptions& options = {}) {
  const Refs values = make_values(op_case, real_dtype);
  const Refs outputs = op_case.reference(values);
  const Refs weights = projection_weights(outputs);
  const Built built = build(op_case, values, real_dtype, &weights);
  std::vector<bool> counts;
  for (const NamedValue& output : built.model->entry("main").outputs())
    if (output.name[0] == 'y')
      counts.push_back(is_float(built.model->entry("main").type(output.value).dtype));
  const NamedTensors results = run(built, options);
  for (size_t i = 0; i < built.gradients.size(); ++i) {
    if (built.gradients[i].empty()) continue;
    const std::string what =
        "gradient of input " + std::to_string(i) + " of " + describe(op_case, real_dtype, options);
    expect_close(ref_of(results.at(built.gradients[i])),
                 finite_difference(op_case, values, weights, counts, i), tolerance, what);
  }
}

bool has_differentiable_input(const OpCase& op_case) {
  for (const CaseInput& input : op_case.inputs)
    if (input.differentiable) return true;
  return false;
}

// Checks that results do not change a bit with the number of threads, optimization, or a round trip through a file.
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
  const NamedTensors plain = run(built, {.optimize = false});
  for (const auto& [name, tensor] : expected)
    expect_close(ref_of(tensor), ref_of(plain.at(name)), op_case.tolerance,
                 op_case.name + " optimized against plain, " + name);

  // Other processes may check a case of this name at the same time.
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / fmt::format("{}-{}.genesis", op_case.name, ::getpid());
  save_model(*built.model, path);
  Built loaded = built;
  loaded.model = load_model(path);
  std::filesystem::remove(path);
  expect_same_bits(run(loaded, {.threads = 1}), expected, op_case.name + " saved and loaded");
}

}  // namespace

namespace {

// Checks values and gradients in every precision.
void check_numbers(const OpCase& op_case, const SessionOptions& options) {
  check_forward(op_case, DType::f32, op_case.tolerance, options);
  if (op_case.f64) check_forward(op_case, DType::f64, op_case.tolerance_f64, options);
  bool has_real = false;
  for (const CaseInput& input : op_case.inputs) has_real = has_real || is_real(input);
  if (op_case.low_precision && has_real) {
    check_forward(op_case, DType::bf16, op_case.tolerance_low, options);
    check_forward(op_case, DType::f16, op_case.tolerance_low, options);
  }
  if (op_case.gradient && has_differentiable_input(op_case)) {
    if (op_case.f64) check_gradient(op_case, DType::f64, op_case.tolerance_gradient, options);
    check_gradient(op_case, DType::f32, std::max(op_case.tolerance_gradient, 10 * op_case.tolerance),
                   options);
  }
}

}  // namespace

void check(const OpCase& op_case) {
  SCOPED_TRACE(op_case.name);
  check_numbers(op_case, {});
  check_same_bits(op_case);
  if (why_no_cuda().empty()) check_numbers(op_case, {.device = "cuda"});
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
