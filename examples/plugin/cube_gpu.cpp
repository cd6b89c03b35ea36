// An op of one's own with kernels for the CPU and for NVIDIA GPUs:
//   nvcc -c -O2 -Xcompiler -fPIC cube_gpu.cu -o cube_gpu.o
//   c++ -shared -fPIC -O2 cube_gpu.cpp cube_gpu.o -o libcube_gpu.so $(pkg-config --cflags --libs genesis) -L/usr/local/cuda/lib64 -lcudart_static
#include <genesis/plugin.h>

using namespace genesis;

struct CubeGpu {
  static constexpr OpInfo info{
      .name = "cube_gpu", .doc = "scale times x to the third power.", .precision = Precision::kF32};
  double scale = 1;
  static void fields(auto& self, auto&& visit) { visit("scale", self.scale); }
  std::vector<TensorType> infer(Types in) const { return {in[0]}; }
  void grad(GradientContext& g) const { g.set(0, g.dy() * square(g.input(0)) * (3 * scale)); }
};

static void run_on_cpu(const KernelContext& c) {
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
    const T* x = c.input(0).as<const T>();
    for (int64_t i = 0; i < c.output().numel(); ++i) {
      const auto v = static_cast<double>(x[i]);
      c.output().as<T>()[i] = static_cast<T>(c.attributes<CubeGpu>().scale * v * v * v);
    }
  });
}

void launch_cube(const float* x, float* y, int64_t n, float scale, void* stream);  // cube_gpu.cu

static void run_on_gpu(const KernelContext& c) {
  launch_cube(c.input(0).as<const float>(), c.output().as<float>(), c.output().numel(),
              static_cast<float>(c.attributes<CubeGpu>().scale), gpu_stream(c));
}

// The reason why a kernel cannot run a node is shown by `genesis-run info` and in errors.
static std::optional<std::string> only_f32(const KernelQuery& query) {
  if (query.inputs[0].dtype == DType::f32) return std::nullopt;
  return "it computes in f32 only";
}

static constexpr OpKernel kCpu[] = {{"cube_gpu", {.name = "plain", .run = run_on_cpu}}};
static constexpr OpKernel kGpu[] = {
    {"cube_gpu", {.name = "threads", .run = run_on_gpu, .can_run = only_f32}}};

GENESIS_PLUGIN(kOpDefs<CubeGpu>, kCpu, kGpu)
