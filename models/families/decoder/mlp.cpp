#include "models/families/decoder/mlp.h"

#include "builder/genesis.h"

namespace genesis::models {
namespace {

class GeGlu : public nn::Module<GeGlu> {
 public:
  GeGlu(const Scope& s, int64_t hidden_size, int64_t intermediate_size, const nn::Linear::Options& options)
      : Module(s),
        gate_proj_(s / "gate_proj", hidden_size, intermediate_size, options),
        up_proj_(s / "up_proj", hidden_size, intermediate_size, options),
        down_proj_(s / "down_proj", intermediate_size, hidden_size, options) {}

  Value forward(Value x) const { return down_proj_(gelu(gate_proj_(x), GeluKind::kTanh) * up_proj_(x)); }

 private:
  nn::Linear gate_proj_, up_proj_, down_proj_;
};

class GeluMlp : public nn::Module<GeluMlp> {
 public:
  GeluMlp(const Scope& s, int64_t hidden_size, int64_t intermediate_size, const nn::Linear::Options& options)
      : Module(s),
        c_fc_(s / "c_fc", hidden_size, intermediate_size, options),
        c_proj_(s / "c_proj", intermediate_size, hidden_size, options) {}

  Value forward(Value x) const { return c_proj_(gelu(c_fc_(x), GeluKind::kTanh)); }

 private:
  nn::Linear c_fc_, c_proj_;
};

class SquaredRelu : public nn::Module<SquaredRelu> {
 public:
  SquaredRelu(const Scope& s, int64_t hidden_size, int64_t intermediate_size,
              const nn::Linear::Options& options)
      : Module(s),
        up_proj_(s / "up_proj", hidden_size, intermediate_size, options),
        down_proj_(s / "down_proj", intermediate_size, hidden_size, options) {}

  Value forward(Value x) const { return down_proj_(square(relu(up_proj_(x)))); }

 private:
  nn::Linear up_proj_, down_proj_;
};

// SwiGLU with factors behind gate_proj and down_proj.
class ScaledSwiGlu : public nn::Module<ScaledSwiGlu> {
 public:
  ScaledSwiGlu(const Scope& s, int64_t hidden_size, int64_t intermediate_size,
               const nn::Linear::Options& options, double gate_scale, double out_scale)
      : Module(s),
        gate_scale_(gate_scale),
        out_scale_(out_scale),
        gate_proj_(s / "gate_proj", hidden_size, intermediate_size, options),
        up_proj_(s / "up_proj", hidden_size, intermediate_size, options),
        down_proj_(s / "down_proj", intermediate_size, hidden_size, options) {}

  Value forward(Value x) const {
    return down_proj_(silu(gate_proj_(x) * gate_scale_) * up_proj_(x)) * out_scale_;
  }

 private:
  double gate_scale_, out_scale_;
  nn::Linear gate_proj_, up_proj_, down_proj_;
};

}  // namespace

nn::Layer make_mlp(const Scope& s, int64_t hidden_size, int64_t intermediate_size, const LayerDesign& design,
                   const init::Init& init) {
  const nn::Linear::Options options{.bias = design.mlp_biases, .init = init};
  switch (design.mlp) {
    case MlpKind::kSwiGlu:
      if (design.mlp_gate_scale != 1 || design.mlp_out_scale != 1)
        return ScaledSwiGlu(s, hidden_size, intermediate_size, options, design.mlp_gate_scale,
                            design.mlp_out_scale);
      return nn::FeedForwardSwiGLU(s, hidden_size, intermediate_size, design.mlp_biases, init);
    case MlpKind::kGeGlu:
      return GeGlu(s, hidden_size, intermediate_size, options);
    case MlpKind::kGelu:
      return GeluMlp(s, hidden_size, intermediate_size, options);
    case MlpKind::kSquaredRelu:
      return SquaredRelu(s, hidden_size, intermediate_size, options);
    case MlpKind::kNone:
      break;
  }
  fail("no MLP of kind {}", static_cast<int>(design.mlp));
}

}  // namespace genesis::models
