// genesis-run check-op: checks an op as the library's tests check its own, for authors of plugins. Its formula in f64 is what its
// results, and its gradient by finite differences, have to agree with; without a formula, the op itself in f64 is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <set>

#include "executor/runtime/device.h"
#include "passes/core/formula.h"
#include "passes/training/autodiff.h"
#include "schema/graph/op.h"
#include "schema/graph/text.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/reduce.h"
#include "tools/common/numbers.h"
#include "tools/run/run_commands.h"

namespace genesis::tools {
namespace {

struct CheckOpFlags {
  std::string op, device = "cpu";
  std::vector<std::string> settings, inputs;
  double tolerance = 4e-6, tolerance_low = 0.02, tolerance_gradient = 2e-6;
  Output out;
};

// An input of the op: reals are checked as f64, f32, bf16 and f16, other dtypes stay.
struct OpInput {
  TensorType type;
  double low = -1, high = 1;
  bool is_real() const { return type.dtype == DType::f32; }
};
using OpInputs = std::vector<OpInput>;
using Values = std::vector<std::vector<double>>;

// Parses "f32[3,5]", "f32[3,5]:0.1:4" or "i64[4]:0:9".
OpInput parse_input(const std::string& text) {
  const size_t bracket = text.find('['), end = text.find(']');
  const auto dtype = parse_dtype(text.substr(0, bracket));
  if (!dtype || bracket == std::string::npos || end == std::string::npos)
    fail_usage("--input {}: expected DTYPE[SIZES] or DTYPE[SIZES]:LOW:HIGH, such as f32[3,5]:0.1:4", text);
  OpInput input{{*dtype, Shape::parse(text.substr(bracket, end + 1 - bracket))}};
  if (!is_float(*dtype)) input.low = 0, input.high = 9;
  if (end + 1 == text.size()) return input;
  const size_t colon = text.find(':', end + 2);
  if (text[end + 1] != ':' || colon == std::string::npos)
    fail_usage("--input {}: expected :LOW:HIGH behind the sizes", text);
  const Range<double> any{};
  input.low = number_or_fail<double>("--input: LOW", text.substr(end + 2, colon - end - 2), any);
  input.high = number_or_fail<double>("--input: HIGH", text.substr(colon + 1), any);
  if (!(input.low <= input.high))
    fail_usage("--input {}: LOW is {} and HIGH is {}, expected LOW <= HIGH", text, input.low, input.high);
  return input;
}

DType dtype_in(const OpInput& input, DType real) { return input.is_real() ? real : input.type.dtype; }

Tensor tensor_of(const std::vector<double>& values, const TensorType& type) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(type.dtype, [&]<class T>(TypeTag<T>) {
    for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<T*>(data)[i] = static_cast<T>(values[i]);
  });
  return tensor;
}

// Draws values, rounded to the dtype, so that runs in other dtypes compute the same function of the same numbers.
Values draw(const OpInputs& inputs, DType real) {
  std::mt19937_64 random(7);
  Values values;
  for (const OpInput& input : inputs) {
    std::vector<double> drawn(static_cast<size_t>(input.type.numel()));
    for (double& v : drawn) {
      v = std::uniform_real_distribution<double>(input.low, input.high)(random);
      if (!is_float(input.type.dtype)) v = std::floor(v);
    }
    const DType rounding = dtype_in(input, real == DType::f64 ? DType::f32 : real);
    values.push_back(tensor_of(drawn, {rounding, input.type.shape}).to_doubles());
  }
  return values;
}

// An entry point contains the op, or its formula, or the op before another one, with which a formula fuses.
enum class Written : uint8_t { kOp, kFormula, kBeforeOthers };

// The op in an entry point "main": y0, y1, ... and, with gradients, the derivatives dx0, ... of the sum of all results times numbers
// between 0.5 and 1.5.
struct BuiltOp {
  std::shared_ptr<Model> model;
  NamedTensors inputs;
  std::vector<std::string> outputs;
};

class OpBuilder {
 public:
  OpBuilder(const CheckOpFlags& flags, const OpInputs& inputs) : inputs_(inputs) {
    for (const std::string& setting : flags.settings) settings_ += (settings_.empty() ? "" : ", ") + setting;
    op_ = flags.op;
  }

  BuiltOp build(const Values& values, DType real, bool with_gradients, Written written = Written::kOp) const {
    BuiltOp built{std::make_shared<Model>(), {}, {}};
    std::string heading, arguments;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const TensorType type{dtype_in(inputs_[i], real), inputs_[i].type.shape};
      built.inputs[name("x", i)] = tensor_of(values[i], type);
      heading += fmt::format("{}{}: {}", i ? ", " : "", name("x", i), type.to_string());
      arguments += (i ? ", " : "") + name("x", i);
    }
    parse_text(fmt::format("entry main({}) {{\n%op = {}({}) {{{}}}\n}}", heading, op_, arguments, settings_),
               *built.model);
    Graph& graph = built.model->entry("main");
    const std::vector<Value> results = results_of(graph, written);
    for (size_t i = 0; i < results.size(); ++i) {
      built.outputs.push_back(name("y", i));
      graph.add_output(name("y", i), results[i]);
    }
    if (with_gradients) add_gradients(graph, results, real, built);
    return built;
  }

  // The numbers by which results are multiplied before they are summed.
  static std::vector<double> weights(int64_t count, size_t output) {
    std::vector<double> numbers;
    for (int64_t k = 0; k < count; ++k)
      numbers.push_back(static_cast<float>(
          0.5 + std::fmod((static_cast<double>(k) + static_cast<double>(output)) * 0.618033988749895, 1.0)));
    return numbers;
  }
  static std::string name(const char* kind, size_t i) { return kind + std::to_string(i); }

 private:
  // `graph` contains the node of the op alone. Before others, the signs of real results change.
  static std::vector<Value> results_of(Graph& graph, Written written) {
    const Node node = graph.nodes().back();
    std::vector<Value> inputs, results;
    for (const ValueId id : node.inputs) inputs.push_back(graph.handle(id));
    passes::FormulaParts parts;
    if (written == Written::kFormula) return passes::write_formula(*node.op, node.attributes, inputs, parts);
    for (const ValueId id : node.outputs) results.push_back(graph.handle(id));
    for (Value& y : results)
      if (written == Written::kBeforeOthers && is_float(y.dtype())) y = neg(y);
    return results;
  }

  void add_gradients(Graph& graph, const std::vector<Value>& results, DType real, BuiltOp& built) const {
    const DType wide = real == DType::f64 ? DType::f64 : DType::f32;
    Value total;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_float(results[i].dtype())) continue;
      const TensorType type{wide, results[i].shape()};
      built.inputs[name("weight", i)] = tensor_of(weights(type.numel(), i), type);
      const Value term = sum(cast(results[i], wide) * graph.add_input(name("weight", i), type));
      total = total ? total + term : term;
    }
    std::vector<Value> wanted;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (is_float(inputs_[i].type.dtype)) wanted.push_back(graph.input(name("x", i)));
    const std::vector<Value> gradients = passes::gradients(graph, total, wanted);
    for (size_t i = 0, next = 0; i < inputs_.size(); ++i)
      if (is_float(inputs_[i].type.dtype)) {
        built.outputs.push_back(name("dx", i));
        graph.add_output(name("dx", i), gradients[next++]);
      }
  }

  const OpInputs& inputs_;
  std::string op_, settings_;
};

// Checks the op with inputs of certain shapes, and keeps what is wrong in words.
class OpChecks {
 public:
  explicit OpChecks(const CheckOpFlags& flags) : flags_(flags), op_(*find_op(flags.op)) {}

  void check(const OpInputs& inputs) {
    inputs_ = inputs;
    for (const DType real : {DType::f32, DType::bf16, DType::f16})
      if (has_reals() || real == DType::f32) check_values(real);
    if (has_gradient() && has_reals()) check_gradients();
    check_same_bits();
  }
  const std::vector<std::string>& wrong() const { return wrong_; }
  const std::set<std::string>& declined() const { return declined_; }  // dtypes for which there is no kernel
  int count() const { return count_; }
  bool has_gradient() const { return op_.grad || op_.formula; }

 private:
  using Results = std::map<std::string, std::vector<double>>;

  bool has_reals() const {
    return std::ranges::any_of(inputs_, [](const OpInput& input) { return input.is_real(); });
  }
  std::string where(DType real) const {
    std::string text;
    for (const OpInput& input : inputs_)
      text += (text.empty() ? "" : ", ") + TensorType{dtype_in(input, real), input.type.shape}.to_string();
    return fmt::format("{}({}): ", op_.name(), text);
  }
  void report(DType real, const std::string& what) { wrong_.push_back(where(real) + what); }

  NamedTensors run(const BuiltOp& built, const SessionOptions& options) const {
    Session session(built.model, options);
    return session.run("main", built.inputs);
  }
  // Runs the op, or reports why it does not run.
  std::optional<Results> results(const BuiltOp& built, const SessionOptions& options, DType real) {
    try {
      Results all;
      for (const auto& [name, tensor] : run(built, options)) all[name] = tensor.to_doubles();
      return all;
    } catch (const Error& error) {
      const bool declines = real != DType::f64 && real != DType::f32 &&
                            error.message().find("no kernel runs op") != std::string::npos;
      if (declines)
        declined_.insert(std::string(name_of(real)));
      else
        report(real, error.message());
      return std::nullopt;
    }
  }

  // Tells whether a result is infinite as the expected number is too large for f16.
  static bool overflows(double got, double expected, DType real) {
    return real == DType::f16 && std::isinf(got) && std::abs(expected) > 65504 && (got > 0) == (expected > 0);
  }

  void compare(const Results& got, const Results& expected, double tolerance, DType real, bool by_largest) {
    for (const auto& [name, wanted] : expected) {
      ++count_;
      const std::vector<double>& found = got.at(name);
      double largest = 1;
      for (const double v : wanted)
        if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
      for (size_t i = 0; i < wanted.size(); ++i) {
        const double g = found[i], e = wanted[i], scale = by_largest ? largest : std::max(1.0, std::abs(e));
        if (g == e || (std::isnan(g) && std::isnan(e)) || overflows(g, e, real)) continue;
        if (std::isfinite(e) && std::abs(g - e) <= tolerance * scale) continue;
        report(real, fmt::format("element {} of {} is {}, expected {}", i, name, g, e));
        break;
      }
    }
  }

  void check_values(DType real) {
    const Values values = draw(inputs_, real);
    const OpBuilder builder(flags_, inputs_);
    const Written reference = op_.formula ? Written::kFormula : Written::kOp;
    const auto expected = results(builder.build(values, DType::f64, false, reference), {}, DType::f64);
    const BuiltOp built = builder.build(values, real, false);
    const double tolerance = real == DType::f32 ? flags_.tolerance : flags_.tolerance_low;
    for (const bool optimize : {true, false}) {
      const auto got = results(built, {.device = flags_.device, .optimize = optimize}, real);
      if (got && expected) compare(*got, *expected, tolerance, real, false);
    }
    if (op_.formula && expected) check_formula(builder, values, *expected, real, tolerance);
  }

  // Changes the signs of what `built` changes the signs of.
  static Results with_signs_of(const BuiltOp& built, Results results) {
    const Graph& graph = std::as_const(*built.model).entry("main");
    for (const NamedValue& output : graph.outputs())
      if (is_float(graph.type(output.value).dtype))
        for (double& v : results.at(output.name)) v = -v;
    return results;
  }

  // The formula must give the same where it is fused, and the kernel in f64 the same as the formula.
  void check_formula(const OpBuilder& builder, const Values& values, const Results& expected, DType real,
                     double tolerance) {
    const BuiltOp before_others = builder.build(values, real, false, Written::kBeforeOthers);
    if (const auto fused = results(before_others, {.device = flags_.device}, real))
      compare(*fused, with_signs_of(before_others, expected), tolerance, real, false);
    if (real != DType::f32) return;
    const auto wide = results(builder.build(values, DType::f64, false), {}, DType::f64);
    if (wide) compare(*wide, expected, tolerance, DType::f64, false);
  }

  // Returns the derivatives by central differences of the op in f64.
  Results differences(Values values) const {
    constexpr double kStep = 1e-5;
    const OpBuilder builder(flags_, inputs_);
    Session session(builder.build(values, DType::f64, false).model);
    const auto total = [&] {
      double sum = 0;
      size_t output = 0;
      const BuiltOp built = builder.build(values, DType::f64, false);
      const NamedTensors results = session.run("main", built.inputs);
      for (const std::string& name : built.outputs) {
        const Tensor& y = results.at(name);
        const std::vector<double> numbers = y.to_doubles(), by = OpBuilder::weights(y.numel(), output++);
        for (size_t k = 0; is_float(y.dtype()) && k < numbers.size(); ++k) sum += numbers[k] * by[k];
      }
      return sum;
    };
    Results all;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!is_float(inputs_[i].type.dtype)) continue;
      std::vector<double>& of_input = all[OpBuilder::name("dx", i)];
      for (double& v : values[i]) {
        const double x = v;
        v = x + kStep;
        const double above = total();
        v = x - kStep;
        of_input.push_back((above - total()) / (2 * kStep));
        v = x;
      }
    }
    return all;
  }

  void check_gradients() {
    int64_t elements = 0;
    for (const OpInput& input : inputs_) elements += input.type.numel();
    if (elements > kMaxDifferences) return;
    const OpBuilder builder(flags_, inputs_);
    for (const DType start : {DType::f32, DType::bf16}) {
      const Values values = draw(inputs_, start);
      const auto expected = differences(values);
      for (const DType real : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
        const bool is_low = real == DType::bf16 || real == DType::f16;
        if (is_low != (start == DType::bf16)) continue;
        auto got = results(builder.build(values, real, true),
                           {.device = real == DType::f64 ? "cpu" : flags_.device}, real);
        const double tolerance = is_low ? flags_.tolerance_low
                                 : real == DType::f64
                                     ? flags_.tolerance_gradient
                                     : std::max(10 * flags_.tolerance, flags_.tolerance_gradient);
        if (got) compare(*got, expected, tolerance, real, is_low);
      }
    }
  }

  // Results must not change a bit with the number of threads, the memory plan, or when the model is written and read.
  void check_same_bits() {
    const BuiltOp built = OpBuilder(flags_, inputs_)
                              .build(draw(inputs_, DType::f32), DType::f32, has_gradient() && has_reals());
    const auto same = [&](const std::string& what, const SessionOptions& options, const BuiltOp& other) {
      ++count_;
      const NamedTensors expected = run(built, {.threads = 1}), got = run(other, options);
      for (const auto& [name, tensor] : expected)
        if (std::memcmp(tensor.data(), got.at(name).data(), static_cast<size_t>(tensor.bytes())) != 0)
          return report(DType::f32, fmt::format("the bits of {} change {}", name, what));
    };
    try {
      same("with 2 threads", {.threads = 2}, built);
      same("with 4 threads", {.threads = 4}, built);
      same("without memory reuse", {.threads = 1, .disabled = {"in_place", "memory_reuse"}}, built);
      BuiltOp loaded = built;
      loaded.model = parse_text(to_text(*built.model));
      same("when the model is read back", {.threads = 1}, loaded);
    } catch (const Error& error) {
      report(DType::f32, error.message());
    }
  }

  static constexpr int64_t kMaxDifferences = 200;
  const CheckOpFlags& flags_;
  const OpDef& op_;
  OpInputs inputs_;
  std::vector<std::string> wrong_;
  std::set<std::string> declined_;
  int count_ = 0;
};

// Returns the inputs to check with: those that were given, or reals of several shapes, odd ones among them.
std::vector<OpInputs> cases_of(const CheckOpFlags& flags, const OpDef& op) {
  if (!flags.inputs.empty()) {
    OpInputs given;
    for (const std::string& input : flags.inputs) given.push_back(parse_input(input));
    return {given};
  }
  std::vector<OpInputs> cases;
  for (const char* shape : {"[1]", "[3,5]", "[7,1,9]", "[0,3]", "[4099]", "[65537]"})
    cases.emplace_back(static_cast<size_t>(op.info.inputs.min), OpInput{{DType::f32, Shape::parse(shape)}});
  return cases;
}

void check_op(const CheckOpFlags& flags) {
  const OpDef* op = find_op(flags.op);
  if (!op)
    fail("there is no op '{}': `genesis-opt --list-ops` shows the library's; --plugin FILE.so opens others",
         flags.op);
  open_device(flags.device, 0);  // throws Error if there is none
  OpChecks checks(flags);
  for (const OpInputs& inputs : cases_of(flags, *op)) checks.check(inputs);
  const nlohmann::ordered_json json{{"op", flags.op},
                                    {"checks", checks.count()},
                                    {"has_gradient", checks.has_gradient()},
                                    {"has_formula", op->formula != nullptr},
                                    {"no_kernel", checks.declined()},
                                    {"wrong", checks.wrong()}};
  flags.out.print(json, [&] {
    for (const std::string& line : checks.wrong()) std::cout << "wrong: " << line << "\n";
    if (!checks.wrong().empty()) return;
    std::cout << fmt::format("{}: {} checks, all right", flags.op, checks.count());
    for (const std::string& dtype : checks.declined()) std::cout << "; no kernel takes " << dtype;
    std::cout << (checks.has_gradient() ? "\n" : "; it has no gradient, so nothing is trained through it\n");
  });
  if (!checks.wrong().empty()) fail("{} checks of the op '{}' failed", checks.wrong().size(), flags.op);
}

}  // namespace

void add_check_op(Command& app) {
  auto flags = std::make_shared<CheckOpFlags>();
  Command* command = app.add_subcommand(
      "check-op",
      "checks an op of one's own: dtypes, gradients by finite differences, odd shapes, the same bits");
  command->add_option("op", flags->op, "its name")->required();
  command->add_option("--set", flags->settings, "attributes of the op, NAME=VALUE")->take_all();
  command
      ->add_option(
          "--input", flags->inputs,
          "one for each input: DTYPE[SIZES] or DTYPE[SIZES]:LOW:HIGH, between which values are drawn; f32 "
          "stands for all reals. Without it, reals from -1 to 1 of six shapes")
      ->take_all();
  command->add_option("--device", flags->device, "cpu, cuda or cuda:N; references are computed on the CPU");
  add_number(*command, "--tolerance", flags->tolerance, "error in f32 of numbers up to 1",
             at_least<double>(0));
  add_number(*command, "--tolerance-low", flags->tolerance_low, "the same in bf16 and f16",
             at_least<double>(0));
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run --plugin ./libcube.so check-op cube --set scale=0.5 --input f32[3,5]:-2:2");
  command->callback([flags] { check_op(*flags); });
}

}  // namespace genesis::tools
