#include "backends/cuda/codegen/fused_writer.h"

#include <cmath>
#include <limits>

#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/formula_call.h"
#include "schema/ops/tensor/layout.h"

namespace genesis::cuda {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// Returns the type that a formula computes in.
std::string_view formula_type(std::string_view formula, DType dtype) {
  if (is_low_precision(dtype)) return "Rough";
  const bool truth = formula.starts_with("logical_") || formula == "where";
  return dtype == DType::boolean && !truth ? "Integer" : lane_type(dtype);
}

std::string literal(int64_t x) {
  if (x == std::numeric_limits<int64_t>::min()) return "Integer(int64(-9223372036854775807ll - 1))";
  return fmt::format("Integer(int64({}ll))", x);
}

std::string literal(double x) {
  if (std::isnan(x)) return "(1e300 * 1e300 * 0.0)";
  if (std::isinf(x)) return x > 0 ? "(1e300 * 1e300)" : "(-1e300 * 1e300)";
  const std::string digits = fmt::format("{:.17g}", x);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

// Converts a clamp bound that was rounded to a whole number to i64, saturating.
int64_t saturated(double x) {
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (x < -0x1p63) return std::numeric_limits<int64_t>::min();
  return x == x ? static_cast<int64_t>(x) : 0;
}

}  // namespace

int FusedWriter::num_inputs() const { return static_cast<int>(program_.inputs.size()); }

bool FusedWriter::is_input(int v) const { return v < num_inputs(); }

const FusedOp& FusedWriter::fused_op(int v) const { return program_.ops[at(v) - program_.inputs.size()]; }

DType FusedWriter::dtype(int v) const { return program_.type(v).dtype; }

Extent FusedWriter::extent(int v) const { return plan_.extents[at(v)]; }

bool FusedWriter::is_dense(int input) const {
  return program_.inputs[at(input)].numel() == program_.space.numel().value();
}

bool FusedWriter::is_reduction(int v) const {
  return !is_input(v) && program_.has_rows &&
         is_row_reduction(*fused_op(v).op, fused_op(v).attributes, program_.space.rank());
}

std::string FusedWriter::source_of(int input) const {
  return fmt::format("static_cast<const {}*>(p.in[{}])", memory_type(dtype(input)), input);
}

bool FusedWriter::whole(int output) const { return program_.type(output).shape == program_.space; }

void FusedWriter::write_op(int v) {
  const FusedOp& op = fused_op(v);
  const std::string value = value_of(op);
  const bool narrow = is_integer(op.type.dtype) && op.type.dtype != DType::i64;
  line("const {} v{} = {};", lane_type(op.type.dtype), v,
       narrow ? fmt::format("cut<{}>({})", memory_type(op.type.dtype), value) : value);
}

std::string FusedWriter::value_of(const FusedOp& op) {
  const std::string_view lane = lane_type(op.type.dtype);
  if (is<ops::Expand>(*op.op)) return fmt::format("v{}", op.operands[0]);
  if (is<ops::Cast>(*op.op)) return fmt::format("to<{}>(v{})", lane, op.operands[0]);
  if (is<ops::Full>(*op.op)) {
    const Scalar value = from_attributes<ops::Full>(op.attributes).value;
    return fmt::format("to<{}>({})", lane,
                       value.is_integer() ? literal(value.as_integer()) : literal(value.as_double()));
  }
  return fmt::format("to<{}>({})", lane, formula(op));
}

std::string FusedWriter::formula(const FusedOp& op) {
  std::vector<TensorType> types;
  for (int operand : op.operands) types.push_back(program_.type(operand));
  const FormulaCall call = formula_of(*op.op, op.attributes);
  const std::string_view type = formula_type(call.name, formula_dtype(*op.op, types, op.type));
  std::string arguments;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const bool condition = call.name == "where" && i == 0;
    arguments += fmt::format("{}to<{}>(v{})", i ? ", " : "", condition ? "bool" : type, op.operands[i]);
  }
  const bool integers = type == "Integer";
  if (integers && (call.name == "floordiv" || call.name == "remainder"))
    line("check_divisor(fault, to<Integer>(v{}));", op.operands[1]);
  if (integers && call.name == "clamp")
    return fmt::format("clamp({}, {}, {})", arguments, literal(saturated(std::ceil(call.parameters[0]))),
                       literal(saturated(std::floor(call.parameters[1]))));
  for (int i = 0; i < call.num_parameters; ++i)
    arguments += fmt::format(", {}({})", type, literal(call.parameters[at(i)]));
  return fmt::format("{}({})", call.name, arguments);
}

void FusedWriter::write_values(Extent wanted, int depth) {
  for (int v = num_inputs(); v < program_.num_values(); ++v)
    if (extent(v) == wanted && plan_.depths[at(v)] == depth && !is_reduction(v)) write_op(v);
}

std::set<int> FusedWriter::slice(const std::vector<int>& targets) const {
  std::set<int> needed;
  std::vector<int> open = targets;
  while (!open.empty()) {
    const int v = open.back();
    open.pop_back();
    if (extent(v) != Extent::kTile || !needed.insert(v).second || is_input(v)) continue;
    open.insert(open.end(), fused_op(v).operands.begin(), fused_op(v).operands.end());
  }
  return needed;
}

void FusedWriter::write_slice(const std::set<int>& needed, std::string_view which) {
  for (int v : needed)
    if (is_input(v))
      line("const {} v{} = lane(in{}{}.at[j]);", lane_type(dtype(v)), v, v, which);
    else
      write_op(v);
}

void FusedWriter::write_once() {
  for (int i = 0; i < num_inputs(); ++i)
    if (extent(i) == Extent::kOne) line("const {} v{} = lane({}[0]);", lane_type(dtype(i)), i, source_of(i));
  write_values(Extent::kOne, 0);
}

void FusedWriter::write_coordinates(std::string_view from, size_t axes) {
  std::string rest(from);
  for (size_t a = axes; a-- > 1;) {
    const int64_t size = plan_.space.sizes[a];
    line("const index q{} = {} / {}, x{} = {} - q{} * {};", a, rest, size, a, rest, a, size);
    rest = fmt::format("q{}", a);
  }
  line("const index x0 = {};", rest);
}

std::string FusedWriter::offset(int input, size_t axes) const {
  std::string sum;
  for (size_t a = 0; a < axes; ++a)
    if (const int64_t stride = plan_.space.strides[at(input)][a]; stride != 0)
      sum += fmt::format("{}x{} * {}", sum.empty() ? "" : " + ", a, stride);
  return sum.empty() ? "0" : sum;
}

bool FusedWriter::needs_coordinates() const {
  for (int i = 0; i < num_inputs(); ++i)
    if (extent(i) != Extent::kOne && !is_dense(i)) return true;
  return false;
}

void FusedWriter::declare_results() {
  for (size_t o = 0; o < program_.outputs.size(); ++o)
    if (const int v = program_.outputs[o]; whole(v)) line("{} o{}[V];", lane_type(dtype(v)), o);
}

void FusedWriter::keep_results() {
  for (size_t o = 0; o < program_.outputs.size(); ++o)
    if (const int v = program_.outputs[o]; whole(v)) line("o{}[j] = v{};", o, v);
}

void FusedWriter::put_results(std::string_view position) {
  for (size_t o = 0; o < program_.outputs.size(); ++o)
    if (const int v = program_.outputs[o]; whole(v))
      line("put(static_cast<{}*>(p.out[{}]) + {}, o{});", memory_type(dtype(v)), o, position, o);
}

std::vector<int> FusedWriter::whole_outputs() const {
  std::vector<int> wanted;
  for (int v : program_.outputs)
    if (whole(v)) wanted.push_back(v);
  return wanted;
}

void FusedWriter::open_kernel(std::string_view name, std::string_view count) {
  open(
      "\nextern \"C\" __global__ void __launch_bounds__({}) {}(const Pointers p, const int64 {}, const "
      "FaultReport fault)",
      plan_.threads, name, count);
  line("pdl_wait();");
}

}  // namespace genesis::cuda
