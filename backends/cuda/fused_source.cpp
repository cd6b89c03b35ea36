#include "backends/cuda/fused_source.h"

#include <cmath>
#include <set>

#include "backends/cuda/fused_prelude.h"
#include "backends/cuda/source_types.h"
#include "schema/error.h"
#include "schema/ops/formula_call.h"

namespace genesis::cuda {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// What a formula computes in.
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

// An integer is inside real bounds when it is inside these integers.
int64_t saturated(double x) {
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (x < -0x1p63) return std::numeric_limits<int64_t>::min();
  return x == x ? static_cast<int64_t>(x) : 0;
}

class Writer {
 public:
  Writer(const FusedProgram& program, const FusedPlan& plan) : program_(program), plan_(plan) {}

  std::string write() {
    text_ = std::string(kFusedPrelude) + "\nnamespace genesis_device {\n\n";
    line("using index = {};", plan_.wide_index ? "int64" : "unsigned");
    line("struct Pointers {{ const void* in[{}]; void* out[{}]; }};\n",
         std::max<size_t>(1, program_.inputs.size()), program_.outputs.size());
    if (program_.has_rows)
      write_rows();
    else
      write_elements();
    return text_ + "\n}  // namespace genesis_device\n";
  }

 private:
  template <class... Parts>
  void line(fmt::format_string<Parts...> format, Parts&&... parts) {
    text_ += std::string(at(depth_) * 2, ' ') + fmt::format(format, std::forward<Parts>(parts)...) + "\n";
  }
  template <class... Parts>
  void open(fmt::format_string<Parts...> format, Parts&&... parts) {
    line("{} {{", fmt::format(format, std::forward<Parts>(parts)...));
    ++depth_;
  }
  void close() {
    --depth_;
    line("}}");
  }

  int num_inputs() const { return static_cast<int>(program_.inputs.size()); }
  bool is_input(int v) const { return v < num_inputs(); }
  const Instruction& instruction(int v) const {
    return program_.instructions[at(v) - program_.inputs.size()];
  }
  DType dtype(int v) const { return program_.type(v).dtype; }
  Extent extent(int v) const { return plan_.extents[at(v)]; }
  bool is_dense(int input) const {
    return program_.inputs[at(input)].numel() == program_.space.numel().value();
  }
  bool is_reduction(int v) const {
    return !is_input(v) && program_.has_rows &&
           is_row_reduction(*instruction(v).op, instruction(v).attributes, program_.space.rank());
  }
  std::string source_of(int input) const {
    return fmt::format("static_cast<const {}*>(p.in[{}])", memory_type(dtype(input)), input);
  }
  bool whole(int output) const { return program_.type(output).shape == program_.space; }

  // --- instructions

  // v5 = gelu(v3)
  void write_instruction(int v) {
    const Instruction& op = instruction(v);
    const std::string value = value_of(op);
    const bool narrow = is_integer(op.type.dtype) && op.type.dtype != DType::i64;
    line("const {} v{} = {};", lane_type(op.type.dtype), v,
         narrow ? fmt::format("cut<{}>({})", memory_type(op.type.dtype), value) : value);
  }

  std::string value_of(const Instruction& op) {
    const std::string_view name = op.op->name(), lane = lane_type(op.type.dtype);
    if (name == "expand") return fmt::format("v{}", op.operands[0]);
    if (name == "cast") return fmt::format("to<{}>(v{})", lane, op.operands[0]);
    if (name == "full") {
      const auto* integer = std::get_if<int64_t>(op.attributes.find("value"));
      const auto* real = std::get_if<double>(op.attributes.find("value"));
      return fmt::format("to<{}>({})", lane, integer ? literal(*integer) : literal(real ? *real : 0.0));
    }
    return fmt::format("to<{}>({})", lane, formula(op));
  }

  std::string formula(const Instruction& op) {
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

  // Values of `wanted` extent and depth, outside the loop over elements.
  void write_values(Extent wanted, int depth) {
    for (int v = num_inputs(); v < program_.num_values(); ++v)
      if (extent(v) == wanted && plan_.depths[at(v)] == depth && !is_reduction(v)) write_instruction(v);
  }

  // Every value of one per element that `targets` are made of, inputs included.
  std::set<int> slice(const std::vector<int>& targets) const {
    std::set<int> needed;
    std::vector<int> open = targets;
    while (!open.empty()) {
      const int v = open.back();
      open.pop_back();
      if (extent(v) != Extent::kTile || !needed.insert(v).second || is_input(v)) continue;
      open.insert(open.end(), instruction(v).operands.begin(), instruction(v).operands.end());
    }
    return needed;
  }

  // Inside the loop over a pack, whose number is `which`.
  void write_slice(const std::set<int>& needed, std::string_view which) {
    for (int v : needed)
      if (is_input(v))
        line("const {} v{} = lane(in{}{}.at[j]);", lane_type(dtype(v)), v, v, which);
      else
        write_instruction(v);
  }

  void write_once() {
    for (int i = 0; i < num_inputs(); ++i)
      if (extent(i) == Extent::kOne)
        line("const {} v{} = lane({}[0]);", lane_type(dtype(i)), i, source_of(i));
    write_values(Extent::kOne, 0);
  }

  // --- addresses

  // The coordinates of number `from` in the first `axes` axes as x0, x1, ...
  void write_coordinates(std::string_view from, size_t axes) {
    std::string rest(from);
    for (size_t a = axes; a-- > 1;) {
      const int64_t size = plan_.space.sizes[a];
      line("const index q{} = {} / {}, x{} = {} - q{} * {};", a, rest, size, a, rest, a, size);
      rest = fmt::format("q{}", a);
    }
    line("const index x0 = {};", rest);
  }

  std::string offset(int input, size_t axes) const {
    std::string sum;
    for (size_t a = 0; a < axes; ++a)
      if (const int64_t stride = plan_.space.strides[at(input)][a]; stride != 0)
        sum += fmt::format("{}x{} * {}", sum.empty() ? "" : " + ", a, stride);
    return sum.empty() ? "0" : sum;
  }

  bool needs_coordinates() const {
    for (int i = 0; i < num_inputs(); ++i)
      if (extent(i) != Extent::kOne && !is_dense(i)) return true;
    return false;
  }

  // --- results

  void declare_results() {
    for (size_t o = 0; o < program_.outputs.size(); ++o)
      if (const int v = program_.outputs[o]; whole(v)) line("{} o{}[V];", lane_type(dtype(v)), o);
  }
  void keep_results() {
    for (size_t o = 0; o < program_.outputs.size(); ++o)
      if (const int v = program_.outputs[o]; whole(v)) line("o{}[j] = v{};", o, v);
  }
  void put_results(std::string_view position) {
    for (size_t o = 0; o < program_.outputs.size(); ++o)
      if (const int v = program_.outputs[o]; whole(v))
        line("put(static_cast<{}*>(p.out[{}]) + {}, o{});", memory_type(dtype(v)), o, position, o);
  }
  std::vector<int> whole_outputs() const {
    std::vector<int> wanted;
    for (int v : program_.outputs)
      if (whole(v)) wanted.push_back(v);
    return wanted;
  }

  // --- without reductions

  void write_elements() {
    line("constexpr int kThreads = {};\n", plan_.threads);
    line("// Packs first, first + kThreads * V, ... of V elements each, U of them.");
    line("template <int V, int U>");
    open("inline void run(const Pointers& p, const FaultReport& fault, index first, index n)");
    write_once();
    write_loads();
    line("#pragma unroll");
    open("for (int u = 0; u < U; ++u)");
    line("const index i = first + static_cast<index>(u * kThreads * V);");
    line("if (i + V > n) continue;");
    for (int i = 0; i < num_inputs(); ++i)
      if (extent(i) == Extent::kRow) line("const {} v{} = lane(in{}[u].at[0]);", lane_type(dtype(i)), i, i);
    write_values(Extent::kRow, 0);
    declare_results();
    line("#pragma unroll");
    open("for (int j = 0; j < V; ++j)");
    write_slice(slice(whole_outputs()), "[u]");
    keep_results();
    close();
    put_results("i");
    close();
    close();
    write_element_kernels();
  }

  void write_loads() {
    for (int i = 0; i < num_inputs(); ++i)
      if (extent(i) != Extent::kOne)
        line("Pack<{}, {}> in{}[U];", memory_type(dtype(i)), extent(i) == Extent::kRow ? "1" : "V", i);
    line("#pragma unroll");
    open("for (int u = 0; u < U; ++u)");
    line("const index i = first + static_cast<index>(u * kThreads * V);");
    line("if (i + V > n) continue;");
    for (int i = 0; i < num_inputs(); ++i)
      if (extent(i) != Extent::kOne && is_dense(i)) line("fetch(in{}[u], {} + i);", i, source_of(i));
    if (needs_coordinates()) write_strided_loads();
    close();
  }

  void write_strided_loads() {
    const size_t axes = plan_.space.sizes.size();
    if (plan_.by_element) {
      line("#pragma unroll");
      open("for (int j = 0; j < V; ++j)");
    }
    write_coordinates(plan_.by_element ? "(i + j)" : "i", axes);
    for (int i = 0; i < num_inputs(); ++i) {
      if (extent(i) == Extent::kOne || is_dense(i)) continue;
      if (plan_.by_element)
        line("in{}[u].at[j] = {}[{}];", i, source_of(i), offset(i, axes));
      else
        line("fetch(in{}[u], {} + {});", i, source_of(i), offset(i, axes));
    }
    if (plan_.by_element) close();
  }

  void write_element_kernels() {
    const int pack = plan_.pack, chunks = plan_.chunks;
    const std::string begin =
        fmt::format("static_cast<index>(blockIdx.x) * {}", plan_.threads * pack * chunks);
    open_kernel("packed", "n64");
    line("const index n = n64;");
    line("run<{}, {}>(p, fault, {} + threadIdx.x * {}, n);", pack, chunks, begin, pack);
    if (pack > 1)
      line(
          "if (blockIdx.x + 1 == gridDim.x && threadIdx.x < n % {}) "
          "run<1, 1>(p, fault, n - n % {} + threadIdx.x, n);",
          pack, pack);
    close();
    if (pack == 1) return;
    open_kernel("single", "n64");
    line("run<1, {}>(p, fault, {} + threadIdx.x, n64);", pack * chunks, begin);
    close();
  }

  void open_kernel(std::string_view name, std::string_view count) {
    open(
        "\nextern \"C\" __global__ void __launch_bounds__({}) {}(const Pointers p, const int64 {}, const "
        "FaultReport fault)",
        plan_.threads, name, count);
  }

  // --- with reductions

  int last_depth() const {
    int last = 0;
    for (int v = 0; v < program_.num_values(); ++v)
      if (is_reduction(v)) last = std::max(last, plan_.depths[at(v)]);
    return last;
  }

  void write_rows() {
    line("constexpr int kColumns = {}, kThreads = {};\n", plan_.columns(), plan_.threads_per_row);
    line("// The row by kThreads threads, of which this one is `me`; each takes K packs of V elements.");
    line("template <int V, int K>");
    open(
        "inline void run(const Pointers& p, const FaultReport& fault, const int64 row, const int me, "
        "const bool live)");
    write_once();
    write_row_inputs();
    write_values(Extent::kRow, 0);
    if (plan_.held) write_held();
    for (int depth = 1; depth <= last_depth(); ++depth) {
      write_reductions(depth);
      write_values(Extent::kRow, depth);
    }
    if (plan_.threads_per_row <= 32) line("__syncwarp();");
    write_row_results();
    close();
    write_row_kernel("packed", plan_.pack, plan_.chunks);
    if (plan_.pack > 1) write_row_kernel("single", 1, plan_.chunks * plan_.pack);
  }

  void write_row_inputs() {
    const size_t axes = plan_.space.sizes.size() - 1;
    if (needs_coordinates() && axes > 0) write_coordinates("static_cast<index>(row)", axes);
    for (int i = 0; i < num_inputs(); ++i) {
      if (extent(i) == Extent::kOne) continue;
      const std::string start = is_dense(i) ? fmt::format("row * {}", plan_.columns()) : offset(i, axes);
      if (extent(i) == Extent::kRow)
        line("const {} v{} = lane({}[{}]);", lane_type(dtype(i)), i, source_of(i), start);
      else
        line("const {}* from{} = {} + {};", memory_type(dtype(i)), i, source_of(i), start);
    }
  }

  void write_held() {
    const std::set<int> loads = row_loads();
    for (int i : loads) line("Pack<{}, V> in{}[K];", memory_type(dtype(i)), i);
    line("#pragma unroll");
    open("for (int k = 0; k < K; ++k)");
    line("const int c = (k * kThreads + me) * V;");
    line("if (c >= kColumns) continue;");
    for (int i : loads) line("fetch(in{}[k], from{} + c);", i, i);
    close();
  }

  std::set<int> row_loads() const {
    std::set<int> loads;
    for (int i = 0; i < num_inputs(); ++i)
      if (extent(i) == Extent::kTile) loads.insert(i);
    return loads;
  }

  // Opens the loop over this thread's packs of the row; c is the first column of one.
  void open_row(const std::set<int>& needed) {
    if (plan_.held) {
      line("#pragma unroll");
      open("for (int k = 0; k < K; ++k)");
      line("const int c = (k * kThreads + me) * V;");
      line("if (c >= kColumns) continue;");
      return;
    }
    line("#pragma unroll 4");
    open("for (int c = me * V; c < kColumns; c += kThreads * V)");
    for (int v : needed)
      if (is_input(v)) {
        line("Pack<{}, V> in{};", memory_type(dtype(v)), v);
        line("fetch(in{}, from{} + c);", v, v);
      }
  }
  std::string_view which_pack() const { return plan_.held ? "[k]" : ""; }

  static std::string reducer(const Instruction& op) {
    const std::string_view name = op.op->name();
    return fmt::format("{}<{}>",
                       name == "max"   ? "Max"
                       : name == "min" ? "Min"
                                       : "Sum",
                       lane_type(op.type.dtype));
  }

  // All reductions whose operands are known after `depth - 1` others: one pass over the row.
  void write_reductions(int depth) {
    std::vector<int> here, operands;
    for (int v = num_inputs(); v < program_.num_values(); ++v)
      if (is_reduction(v) && plan_.depths[at(v)] == depth) here.push_back(v);
    for (int v : here) {
      line("{} r{} = {}::identity();", lane_type(dtype(v)), v, reducer(instruction(v)));
      operands.push_back(instruction(v).operands[0]);
    }
    const std::set<int> needed = slice(operands);
    open_row(needed);
    line("#pragma unroll");
    open("for (int j = 0; j < V; ++j)");
    write_slice(needed, which_pack());
    for (int v : here)
      line("r{} = {}::join(to<{}>(v{}), r{});", v, reducer(instruction(v)), lane_type(dtype(v)),
           instruction(v).operands[0], v);
    close();
    close();
    for (int v : here) finish_reduction(v);
  }

  void finish_reduction(int v) {
    const Instruction& op = instruction(v);
    const std::string_view lane = lane_type(op.type.dtype);
    line("__shared__ {} partial{}[(kThreads + 31) / 32];", lane, v);
    const std::string total = fmt::format("reduce_row<{}, kThreads>(r{}, partial{})", reducer(op), v, v);
    if (op.op->name() == "mean")
      line("const {} v{} = {} / static_cast<{}>(kColumns);", lane, v, total, lane);
    else
      line("const {} v{} = {};", lane, v, total);
  }

  void write_row_results() {
    if (!whole_outputs().empty()) {
      const std::set<int> needed = slice(whole_outputs());
      open_row(needed);
      declare_results();
      line("#pragma unroll");
      open("for (int j = 0; j < V; ++j)");
      write_slice(needed, which_pack());
      keep_results();
      close();
      open("if (live)");
      put_results("row * kColumns + c");
      close();
      close();
    }
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      const int v = program_.outputs[o];
      if (whole(v)) continue;
      line("const {} o{}[1] = {{v{}}};", lane_type(dtype(v)), o, v);
      line("if (live && me == 0) put(static_cast<{}*>(p.out[{}]) + row, o{});", memory_type(dtype(v)), o, o);
    }
  }

  // A row past the last one repeats it and writes nothing, so that all lanes meet in every reduction.
  void write_row_kernel(std::string_view name, int pack, int chunks) {
    open_kernel(name, "rows");
    line("const int64 row = static_cast<int64>(blockIdx.x) * {} + threadIdx.x / {};", plan_.rows_per_block(),
         plan_.threads_per_row);
    line("run<{}, {}>(p, fault, row < rows ? row : rows - 1, threadIdx.x % {}, row < rows);", pack, chunks,
         plan_.threads_per_row);
    close();
  }

  const FusedProgram& program_;
  const FusedPlan& plan_;
  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string fused_source(const FusedProgram& program, const FusedPlan& plan) {
  return Writer(program, plan).write();
}

}  // namespace genesis::cuda
