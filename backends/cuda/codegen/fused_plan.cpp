#include "backends/cuda/codegen/fused_plan.h"

#include <algorithm>

#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

constexpr int64_t kAccessBytes = 16;
constexpr int64_t kBytesInFlight = 32;    // bytes that a thread loads before it uses the first
constexpr int64_t kSmallBlocks = 264;     // two per multiprocessor; with fewer, a thread has one pack
constexpr int kWidestRow = 1024;          // most threads that share a row
constexpr int64_t kRegisters = 48;        // registers for one row's elements in a thread
constexpr int64_t kRegistersWidest = 32;  // the same with 1024 threads, which have 64 registers in all

size_t at(int i) { return static_cast<size_t>(i); }

bool is_once(const std::vector<int64_t>& strides) {
  return std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
}

class Planner {
 public:
  explicit Planner(const FusedProgram& program) : program_(program) {
    plan_.space = merged_space(program);
    plan_.wide_index = elements() >= (int64_t{1} << 31);
  }

  FusedPlan plan() {
    if (program_.inputs.size() + program_.outputs.size() > kMaxFusedPointers)
      fail("a kernel takes {} inputs and outputs at most", kMaxFusedPointers);
    if (program_.has_rows)
      plan_rows();
    else
      plan_elements();
    set_values();
    return plan_;
  }

 private:
  int64_t elements() const { return program_.space.numel().value(); }
  int num_inputs() const { return static_cast<int>(program_.inputs.size()); }
  int64_t inner_stride(int input) const { return plan_.space.strides[at(input)].back(); }
  static int64_t bytes_of(const TensorType& type) { return static_cast<int64_t>(size_of(type.dtype)); }
  bool is_dense(int input) const { return program_.inputs[at(input)].numel() == elements(); }
  // Returns whether the input is read pack by pack: one element for every element of the space, or for every column
  // of a row.
  bool is_along(int input) const {
    return inner_stride(input) != 0 || (is_dense(input) && !is_once(plan_.space.strides[at(input)]));
  }

  // Returns how many elements of the widest type fit into an access of 16 bytes. Inputs that are gathered element by
  // element are packed as well.
  int64_t widest_pack() const {
    int64_t widest = 1;
    for (int i = 0; i < num_inputs(); ++i)
      if (input_extent(i) == Extent::kTile) widest = std::max(widest, bytes_of(program_.inputs[at(i)]));
    for (int output : program_.outputs) widest = std::max(widest, bytes_of(program_.type(output)));
    return kAccessBytes / widest;
  }

  int64_t bytes_per_element() const {
    int64_t bytes = 0;
    for (int i = 0; i < num_inputs(); ++i)
      if (is_along(i)) bytes += bytes_of(program_.inputs[at(i)]);
    return bytes;
  }

  void plan_elements() {
    plan_.pack = static_cast<int>(widest_pack());
    bool strided = false;
    for (int i = 0; i < num_inputs(); ++i)
      strided = strided || (!is_dense(i) && !is_once(plan_.space.strides[at(i)]));
    plan_.by_element = strided && plan_.columns() % plan_.pack != 0;
    if (plan_.by_element) plan_.pack = static_cast<int>(widest_pack());
    plan_.items = elements();
    const int64_t chunk_bytes = std::max<int64_t>(1, bytes_per_element() * plan_.pack);
    const bool small = plan_.items < kSmallBlocks * plan_.threads * plan_.pack;
    plan_.chunks = small || chunk_bytes > kBytesInFlight ? 1 : 2;
    if (!small && 4 * chunk_bytes <= kBytesInFlight) plan_.chunks = 4;
    const int64_t per_block = int64_t{plan_.threads} * plan_.pack * plan_.chunks;
    plan_.blocks = (plan_.items + per_block - 1) / per_block;
  }

  // Returns the registers that a row's elements take in a thread: the elements in their memory type, and one widened
  // value of each.
  int64_t registers(int64_t elements_per_thread) const {
    return (bytes_per_element() * elements_per_thread + 3) / 4 + elements_per_thread;
  }

  void plan_rows() {
    const int64_t columns = plan_.columns();
    if (columns == 0) fail("rows of no elements are not reduced inside a fused region");
    if (columns >= (int64_t{1} << 31)) fail("rows of {} elements are too long for a fused region", columns);
    plan_.items = elements() / columns;
    plan_.pack = static_cast<int>(widest_pack());
    while (columns % plan_.pack != 0) plan_.pack /= 2;
    const int64_t packs = columns / plan_.pack;
    const auto per_thread = [&](int64_t threads) { return (packs + threads - 1) / threads * plan_.pack; };
    int64_t threads = 1;
    while (threads < std::min<int64_t>(packs, 32)) threads *= 2;
    while (threads < kWidestRow && registers(per_thread(threads)) > kRegisters) threads *= 2;
    plan_.in_registers =
        registers(per_thread(threads)) <= (threads == kWidestRow ? kRegistersWidest : kRegisters);
    if (!plan_.in_registers) threads = kWidestRow / 2;
    plan_.threads_per_row = static_cast<int>(threads);
    plan_.threads = static_cast<int>(std::max<int64_t>(128, threads));
    if (threads > 32) plan_.threads = plan_.threads_per_row;  // the barrier in reduce_row() is for one row
    plan_.chunks = static_cast<int>(per_thread(threads) / plan_.pack);
    plan_.blocks = (plan_.items + plan_.rows_per_block() - 1) / plan_.rows_per_block();
  }

  Extent input_extent(int input) const {
    if (is_along(input) || (plan_.by_element && !is_once(plan_.space.strides[at(input)])))
      return Extent::kTile;
    return is_once(plan_.space.strides[at(input)]) ? Extent::kOne : Extent::kRow;
  }

  void set_values() {
    for (int i = 0; i < num_inputs(); ++i) {
      plan_.extents.push_back(input_extent(i));
      plan_.depths.push_back(0);
    }
    for (const FusedOp& line : program_.ops) {
      Extent extent = Extent::kOne;
      int depth = 0;
      for (int operand : line.operands) {
        extent = std::max(extent, plan_.extents[at(operand)]);
        depth = std::max(depth, plan_.depths[at(operand)]);
      }
      const bool reduces =
          program_.has_rows && is_row_reduction(*line.op, line.attributes, program_.space.rank());
      plan_.extents.push_back(reduces ? Extent::kRow : extent);
      plan_.depths.push_back(depth + (reduces ? 1 : 0));
    }
  }

  const FusedProgram& program_;
  FusedPlan plan_;
};

}  // namespace

FusedPlan plan_fused(const FusedProgram& program) { return Planner(program).plan(); }

}  // namespace genesis::cuda
