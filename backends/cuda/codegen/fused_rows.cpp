#include <algorithm>

#include "backends/cuda/codegen/fused_writer.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::cuda {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

class RowsWriter : FusedWriter {
 public:
  using FusedWriter::FusedWriter;

  std::string write() {
    write_rows();
    return text_;
  }

 private:
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
    if (plan_.in_registers) write_register_rows();
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

  void write_register_rows() {
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

  // Opens the loop over this thread's packs of the row; in the generated code, c is the first column of a pack.
  void open_row(const std::set<int>& needed) {
    if (plan_.in_registers) {
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
  std::string_view which_pack() const { return plan_.in_registers ? "[k]" : ""; }

  static std::string reducer(const FusedOp& op) {
    const char* name = is<ops::Max>(*op.op) ? "Max" : is<ops::Min>(*op.op) ? "Min" : "Sum";
    return fmt::format("{}<{}>", name, lane_type(op.type.dtype));
  }

  // Writes one pass over the row that computes all reductions of this depth, whose operands depend on `depth - 1`
  // earlier ones.
  void write_reductions(int depth) {
    std::vector<int> here, operands;
    for (int v = num_inputs(); v < program_.num_values(); ++v)
      if (is_reduction(v) && plan_.depths[at(v)] == depth) here.push_back(v);
    for (int v : here) {
      line("{} r{} = {}::identity();", lane_type(dtype(v)), v, reducer(fused_op(v)));
      operands.push_back(fused_op(v).operands[0]);
    }
    const std::set<int> needed = slice(operands);
    open_row(needed);
    line("#pragma unroll");
    open("for (int j = 0; j < V; ++j)");
    write_slice(needed, which_pack());
    for (int v : here)
      line("r{} = {}::join(to<{}>(v{}), r{});", v, reducer(fused_op(v)), lane_type(dtype(v)),
           fused_op(v).operands[0], v);
    close();
    close();
    for (int v : here) finish_reduction(v);
  }

  void finish_reduction(int v) {
    const FusedOp& op = fused_op(v);
    const std::string_view lane = lane_type(op.type.dtype);
    line("__shared__ {} partial{}[(kThreads + 31) / 32];", lane, v);
    const std::string total = fmt::format("reduce_row<{}, kThreads>(r{}, partial{})", reducer(op), v, v);
    if (is<ops::Mean>(*op.op))
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

  // Threads beyond the last row repeat that row and write nothing, so that all lanes take part in every reduction.
  void write_row_kernel(std::string_view name, int pack, int chunks) {
    open_kernel(name, "rows");
    line("const int64 row = static_cast<int64>(blockIdx.x) * {} + threadIdx.x / {};", plan_.rows_per_block(),
         plan_.threads_per_row);
    line("run<{}, {}>(p, fault, row < rows ? row : rows - 1, threadIdx.x % {}, row < rows);", pack, chunks,
         plan_.threads_per_row);
    close();
  }
};

}  // namespace

std::string write_rows(const FusedProgram& program, const FusedPlan& plan) {
  return RowsWriter(program, plan).write();
}

}  // namespace genesis::cuda
