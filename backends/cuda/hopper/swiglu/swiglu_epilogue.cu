// Products with swiglu, or its gradient, as their epilogue. In bf16 on Hopper chips each is one kernel with an
// epilogue of swiglu_epilogue.h. On other chips, and if a buffer does not start at a multiple of 16 bytes, the node's
// decomposition runs.
#include "backends/common/decomposed_products.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/swiglu/swiglu_epilogue.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/product_implementations.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

using hopper::Bf16;

// A product of [rows, depth] with a matrix; swiglu's output is [rows, columns].
struct Problem {
  int64_t rows = 0, columns = 0, depth = 0;
};

int64_t last_size(const TensorType& type) { return type.shape[type.shape.rank() - 1].value(); }

// Describes nodes of both ops.
Problem problem_of(const KernelQuery& query) {
  const TensorType& gate_and_up = query.outputs[0];
  const int64_t columns = last_size(gate_and_up) / 2;
  return {columns > 0 ? gate_and_up.numel() / (2 * columns) : 0, columns, last_size(query.inputs[0])};
}

// TMA needs rows of a multiple of 16 bytes.
bool fits_tiles(const Problem& p, DType dtype) {
  constexpr int64_t kMax = int64_t{1} << 29;
  return dtype == DType::bf16 && p.rows > 0 && p.columns > 0 && p.depth > 0 && p.columns % 8 == 0 &&
         p.depth % 8 == 0 && p.rows < kMax && p.columns < kMax && p.depth < kMax;
}

template <class Op>
struct Prepared {
  typename Op::Decomposed decomposed;
  Problem problem;
  bool in_tiles = false;
};

struct Forward {
  using Decomposed = DecomposedLinear;
  static bool is_asked_for(const KernelQuery& query) {
    return from_attributes<ops::Linear>(query.attributes).epilogue == ops::LinearEpilogue::kWithSwiglu;
  }
  using Epilogue = hopper::SwigluEpilogue;

  static BoxedMatrix weight_of(const KernelContext& c, const Problem& p) {
    return {c.input(1).data, 2 * p.columns, p.depth, Epilogue::kColumns};
  }
  static Epilogue end_of(const KernelContext& c) { return {c.output(0).as<Bf16>(), c.output(1).as<Bf16>()}; }
};

struct Backward {
  using Decomposed = DecomposedMatmul;
  static bool is_asked_for(const KernelQuery& query) {
    return from_attributes<ops::Matmul>(query.attributes).epilogue == ops::MatmulEpilogue::kSwigluGrad;
  }
  using Epilogue = hopper::SwigluGradEpilogue;

  static BoxedMatrix weight_of(const KernelContext& c, const Problem& p) {
    return {c.input(1).data, p.depth, p.columns, hopper::kDepth};
  }
  static Epilogue end_of(const KernelContext& c) {
    return {c.input(2).as<const Bf16>(), c.output(0).as<Bf16>(),
            c.outputs.size() > 1 ? c.output(1).as<Bf16>() : nullptr};
  }
};

template <class Op>
std::optional<std::string> decline(const KernelQuery& query) {
  if (!Op::is_asked_for(query)) return "no such epilogue is asked for";
  if (!fits_tiles(problem_of(query), query.outputs[0].dtype))
    return "not bf16, or sizes that are no multiples of 8";
  return std::nullopt;
}

template <class Op>
std::shared_ptr<const void> prepare_swiglu_epilogue(const KernelQuery& query) {
  const bool in_tiles = hopper::has_hopper_code<typename Op::Epilogue>();
  return std::make_shared<Prepared<Op>>(
      Prepared<Op>{typename Op::Decomposed(kernels_for, true, query), problem_of(query), in_tiles});
}

template <class Op>
int64_t swiglu_epilogue_scratch(const KernelQuery& query) {
  return typename Op::Decomposed(kernels_for, false, query).scratch_bytes();
}

template <class Op>
bool run_in_tiles(const KernelContext& c, const Problem& p) {
  CUtensorMap a, b;
  if (!make_tensor_map({c.input(0).data, p.rows, p.depth, hopper::kTileRows}, a) ||
      !make_tensor_map(Op::weight_of(c, p), b))
    return false;
  hopper::start_product(launch_of(c), a, b,
                        hopper::sizes_of_product<typename Op::Epilogue>(p.rows, p.columns, p.depth),
                        Op::end_of(c));
  return true;
}

template <class Op>
void run_swiglu_epilogue(const KernelContext& c) {
  const auto& prepared = c.prepared<Prepared<Op>>();
  const bool started = prepared.in_tiles && aligned_to_packs(c) && run_in_tiles<Op>(c, prepared.problem);
  if (!started) run_decomposed(prepared.decomposed, c);
}

template <class Op>
KernelImpl implementation(std::string_view name) {
  return {.name = name,
          .run = run_swiglu_epilogue<Op>,
          .can_run = decline<Op>,
          .scratch_bytes = swiglu_epilogue_scratch<Op>,
          .prepare = prepare_swiglu_epilogue<Op>,
          .why_not_here = why_no_hopper_here};
}

}  // namespace

KernelImpl linear_swiglu_epilogue_implementation() { return implementation<Forward>("swiglu_epilogue"); }
KernelImpl matmul_swiglu_epilogue_implementation() {
  return implementation<Backward>("swiglu_grad_epilogue");
}

}  // namespace genesis::cuda
