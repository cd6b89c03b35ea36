#include "backends/cuda/codegen/fused_writer.h"

namespace genesis::cuda {
namespace {

class ElementsWriter : FusedWriter {
 public:
  using FusedWriter::FusedWriter;

  std::string write() {
    write_elements();
    return text_;
  }

 private:
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
};

}  // namespace

std::string write_elements(const FusedProgram& program, const FusedPlan& plan) {
  return ElementsWriter(program, plan).write();
}

}  // namespace genesis::cuda
