// ViT-B/16 of torchvision (Dosovitskiy et al., "An image is worth 16x16 words", 2020).
#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"

namespace genesis::models {
namespace {

constexpr double kEps = 1e-6;

struct VitConfig {
  int64_t patch_size = 16, num_layers = 12, num_heads = 12, hidden_dim = 768, mlp_dim = 3072;
  int64_t num_classes = 1000, image_size = 224;

  static void fields(auto& self, auto&& visit) {
    visit("patch_size", self.patch_size);
    visit("num_layers", self.num_layers);
    visit("num_heads", self.num_heads);
    visit("hidden_dim", self.hidden_dim);
    visit("mlp_dim", self.mlp_dim);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

class Block : public nn::Module<Block> {
 public:
  Block(const Scope& scope, const VitConfig& c)
      : Module(scope),
        heads_(c.num_heads),
        norm1_(scope / "ln_1", c.hidden_dim, kEps),
        norm2_(scope / "ln_2", c.hidden_dim, kEps),
        in_weight_(
            (scope / "self_attention")
                .parameter("in_proj_weight", {3 * c.hidden_dim, c.hidden_dim}, init::xavier_uniform())),
        in_bias_((scope / "self_attention").parameter("in_proj_bias", {3 * c.hidden_dim}, init::zeros())),
        out_(scope / "self_attention" / "out_proj", c.hidden_dim, c.hidden_dim),
        mlp_(scope / "mlp", c.hidden_dim, c.mlp_dim) {}
  Value forward(Value x) const {
    x = x + attention_of(norm1_(x));
    return x + mlp_(norm2_(x));
  }

 private:
  Value attention_of(Value x) const {
    std::vector<Value> parts;
    for (const Value part : chunk(linear(x, in_weight_.in(*x.graph), in_bias_.in(*x.graph)), 3, -1))
      parts.push_back(transpose(unflatten(part, -1, {heads_, -1}), 1, 2));
    const Value y = scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return out_(flatten(transpose(y, 1, 2), 2));
  }

  int64_t heads_;
  nn::LayerNorm norm1_, norm2_;
  Parameter in_weight_, in_bias_;
  nn::Linear out_;
  vision::Mlp mlp_;
};

nn::Layer make_layers(const Scope& scope, const VitConfig& c) {
  const int64_t side = c.image_size / c.patch_size, size = c.hidden_dim;
  const nn::Conv2d patches(scope / "conv_proj", 3, size, {c.patch_size},
                           {.conv = {.stride = {c.patch_size}}});
  const Parameter class_token = scope.parameter("class_token", {1, 1, size}, init::zeros());
  const Parameter positions =
      (scope / "encoder").parameter("pos_embedding", {1, side * side + 1, size}, init::normal(0, 0.02));
  std::vector<Block> blocks;
  for (int64_t i = 0; i < c.num_layers; ++i)
    blocks.push_back({scope / "encoder" / "layers" / ("encoder_layer_" + std::to_string(i)), c});
  const nn::LayerNorm norm(scope / "encoder" / "ln", size, kEps);
  const nn::Linear head(scope / "heads" / "head", size, c.num_classes, {.init = init::zeros()});
  return [=](Value x) {
    const Value first = expand(class_token.in(*x.graph), {x.dim(0), 1, size});
    x = concat({first, transpose(flatten(patches(x), 2), 1, 2)}, 1) + positions.in(*x.graph);
    for (const Block& block : blocks) x = block(x);
    return head(select(norm(x), 1, 0));
  };
}

std::unique_ptr<Model> make_vit(const std::string& family, const VitConfig& c, uint64_t seed) {
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  check_size(family, "patch_size", c.patch_size, vision::kMaxImage);
  check_size(family, "num_layers", c.num_layers, kMaxLayers);
  check_size(family, "num_heads", c.num_heads, kMaxHeads);
  check_size(family, "hidden_dim", c.hidden_dim, vision::kMaxChannels);
  check_size(family, "mlp_dim", c.mlp_dim, vision::kMaxChannels);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  if (c.image_size % c.patch_size != 0)
    fail("{}: image_size {} is no multiple of patch_size {}", family, c.image_size, c.patch_size);
  if (c.hidden_dim % c.num_heads != 0)
    fail("{}: hidden_dim {} is no multiple of num_heads {}", family, c.hidden_dim, c.num_heads);
  return vision::make_image_model(c.image_size, seed, {},
                                  [&](const Scope& scope) { return make_layers(scope, c); });
}

}  // namespace

Family vit_b_16_family() {
  return {.name = "vit_b_16",
          .summary = "transformer over patches of a picture, with torchvision's names",
          .network = make_network(VitConfig{}, make_vit)};
}

}  // namespace genesis::models
