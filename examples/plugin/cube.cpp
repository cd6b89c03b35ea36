// An op outside of the library: cube, scale * x^3, with its shape, formula and kernel.
//   c++ -shared -fPIC -O2 cube.cpp -o libcube.so $(pkg-config --cflags --libs genesis)
#include <genesis/plugin.h>

using namespace genesis;

struct Cube {
  static constexpr OpInfo info{
      .name = "cube", .doc = "scale times x to the third power.", .precision = Precision::kFollow};
  double scale = 1;
  static void fields(auto& self, auto&& visit) { visit("scale", self.scale); }
  std::vector<TensorType> infer(Types in) const {
    if (!is_float(in[0].dtype)) fail("cube needs real numbers, got {}", in[0].to_string());
    return {in[0]};
  }
  Value formula(Operands x) const { return square(x[0]) * x[0] * scale; }
};

static void run_cube(const KernelContext& c) {
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
    const T* x = c.input(0).as<const T>();
    T* y = c.output().as<T>();
    for (int64_t i = 0; i < c.output().numel(); ++i) {
      const auto v = static_cast<double>(x[i]);
      y[i] = static_cast<T>(c.attributes<Cube>().scale * v * v * v);
    }
  });
}

static constexpr OpKernel kKernels[] = {{"cube", {.name = "plain", .run = run_cube}}};

GENESIS_PLUGIN(kOpDefs<Cube>, kKernels)
