// oneDNN primitives that run on the calling thread alone. See onednn.h.
#include "backends/cpu/onednn/onednn.h"

#include <dlfcn.h>

#include <oneapi/dnnl/dnnl_version.h>
#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

namespace genesis::cpu::onednn {
namespace {

using dnnl::memory;

// The OpenMP library that oneDNN brought along, whichever it is: so no compiler needs one of its own, and it is surely the
// one that oneDNN asks. A oneDNN built for other threads brings none, and there is nothing to set.
struct OpenMp {
  int (*max_threads)() = nullptr;
  void (*set_threads)(int) = nullptr;

  OpenMp() {
    max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  }
  bool is_there() const { return max_threads && set_threads; }
};

const OpenMp& open_mp() {
  static const OpenMp found;
  return found;
}

// oneDNN asks OpenMP how many threads this thread may start: when a primitive is made, and when it runs.
class OneThread {
 public:
  OneThread() : before_(open_mp().is_there() ? open_mp().max_threads() : 0) {
    if (before_ > 0) open_mp().set_threads(1);
  }
  ~OneThread() {
    if (before_ > 0) open_mp().set_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::data_type type_of(DType type) {
  return type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc matrix(int64_t rows, int64_t columns, DType type, int64_t ld, bool transposed) {
  return memory::desc({rows, columns}, type_of(type), transposed ? memory::dims{1, ld} : memory::dims{ld, 1});
}

dnnl::matmul::primitive_desc describe(const memory::desc& a, const memory::desc& b,
                                      const memory::desc& sums) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, sums, attributes};
#else
  return {dnnl::matmul::desc(a, b, sums), attributes, engine()};
#endif
}

}  // namespace

std::string why_missing() { return ""; }

std::string why_no_amx_bf16() {
  const auto mask = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  const bool has_amx = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & mask) == mask;
  return has_amx ? "" : "this CPU has no AMX";
}

struct TileProduct::State {
  memory::desc a, b, packed_b, sums, workspace, pack_workspace;
  dnnl::matmul product;
  dnnl::reorder packing;

  State(const TileShape& s, DType type, const TileProduct* like)
      : a(matrix(s.m, s.k, type, s.lda, s.transpose_a)),
        b(matrix(s.k, s.n, type, s.ldb, s.transpose_b)),
        sums(matrix(s.m, s.n, DType::f32, s.ld_sums, false)) {
    const memory::desc any({s.k, s.n}, type_of(type), memory::format_tag::any);
    const auto described = describe(a, like ? like->state_->packed_b : any, sums);
    packed_b = described.weights_desc();
    workspace = described.scratchpad_desc();
    product = dnnl::matmul(described);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc reorder(engine(), b, engine(), packed_b, attributes);
    pack_workspace = reorder.scratchpad_desc();
    packing = dnnl::reorder(reorder);
  }
};

TileProduct::TileProduct(std::unique_ptr<State> state) : state_(std::move(state)) {}
TileProduct::~TileProduct() = default;

std::unique_ptr<const TileProduct> TileProduct::create(const TileShape& shape, DType type,
                                                       const TileProduct* like) {
  const OneThread guard;
  try {
    return std::unique_ptr<const TileProduct>(new TileProduct(std::make_unique<State>(shape, type, like)));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

int64_t TileProduct::packed_b_bytes() const { return static_cast<int64_t>(state_->packed_b.get_size()); }

int64_t TileProduct::workspace_bytes() const {
  return static_cast<int64_t>(std::max(state_->workspace.get_size(), state_->pack_workspace.get_size()));
}

void TileProduct::pack_b(const void* b, void* packed, void* workspace) const {
  const OneThread guard;
  dnnl::stream stream(engine());
  const memory from(state_->b, engine(), const_cast<void*>(b)), to(state_->packed_b, engine(), packed);
  const memory work(state_->pack_workspace, engine(), workspace);
  state_->packing.execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, work}});
}

void TileProduct::multiply(const void* a, const void* packed_b, float* sums, void* workspace) const {
  const OneThread guard;
  dnnl::stream stream(engine());
  const memory rows(state_->a, engine(), const_cast<void*>(a));
  const memory columns(state_->packed_b, engine(), const_cast<void*>(packed_b));
  const memory result(state_->sums, engine(), sums), work(state_->workspace, engine(), workspace);
  state_->product.execute(stream, {{DNNL_ARG_SRC, rows},
                                   {DNNL_ARG_WEIGHTS, columns},
                                   {DNNL_ARG_DST, result},
                                   {DNNL_ARG_SCRATCHPAD, work}});
}

}  // namespace genesis::cpu::onednn
