// Swin-T of torchvision (Liu et al., "Swin transformer: hierarchical vision transformer using shifted windows", 2021), without its
// stochastic depth.
#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models {
namespace {

struct SwinConfig {
  int64_t patch_size = 4, embed_dim = 96;
  std::vector<int64_t> depths = {2, 2, 6, 2}, num_heads = {3, 6, 12, 24};
  int64_t window_size = 7, mlp_ratio = 4;
  int64_t num_classes = 1000, image_size = 224;

  static void fields(auto& self, auto&& visit) {
    visit("patch_size", self.patch_size);
    visit("embed_dim", self.embed_dim);
    visit("depths", self.depths);
    visit("num_heads", self.num_heads);
    visit("window_size", self.window_size);
    visit("mlp_ratio", self.mlp_ratio);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

Value constant(Graph& graph, Tensor tensor) {
  return graph.constant(graph.model().add_tensor("windows", std::move(tensor)));
}

// The row of the table of biases for each pair of places in a window.
Tensor relative_positions(int64_t window) {
  std::vector<int64_t> rows;
  const int64_t places = window * window, span = 2 * window - 1;
  for (int64_t a = 0; a < places; ++a)
    for (int64_t b = 0; b < places; ++b)
      rows.push_back((a / window - b / window + window - 1) * span + a % window - b % window + window - 1);
  return Tensor::of<int64_t>(rows);
}

// The pictures of a shifted window come from up to four corners of the picture, which must not see each other: -100 is added to their
// scores. [windows, 1, places, places]
Tensor shift_mask(int64_t height, int64_t width, int64_t window, int64_t shift_y, int64_t shift_x) {
  const auto region = [&](int64_t at, int64_t size, int64_t shift) {
    if (shift == 0) return at < size - window ? 0 : 2;  // without a shift the middle range is empty
    return at < size - window ? 0 : at < size - shift ? 1 : 2;
  };
  const int64_t across = width / window, windows = height / window * across, places = window * window;
  const auto corner = [&](int64_t index, int64_t place) {
    const int64_t y = index / across * window + place / window, x = index % across * window + place % window;
    return region(y, height, shift_y) * 3 + region(x, width, shift_x);
  };
  std::vector<float> mask;
  for (int64_t index = 0; index < windows; ++index)
    for (int64_t a = 0; a < places; ++a)
      for (int64_t b = 0; b < places; ++b) mask.push_back(corner(index, a) == corner(index, b) ? 0 : -100);
  return Tensor::of<float>({windows, 1, places, places}, mask);
}

// Attention inside of windows of x [batch, height, width, channels].
class WindowAttention : public nn::Module<WindowAttention> {
 public:
  WindowAttention(const Scope& scope, int64_t size, int64_t heads, int64_t window, bool shifts)
      : Module(scope),
        heads_(heads),
        window_(window),
        shift_(shifts ? window / 2 : 0),
        qkv_(scope / "qkv", size, 3 * size),
        proj_(scope / "proj", size, size),
        biases_(scope.parameter("relative_position_bias_table", {(2 * window - 1) * (2 * window - 1), heads},
                                init::trunc_normal(0, 0.02))) {}

  Value forward(Value x) const {
    const int64_t height = x.dim(1).value(), width = x.dim(2).value(), channels = x.dim(3).value();
    const int64_t rows = (height + window_ - 1) / window_, columns = (width + window_ - 1) / window_;
    const int64_t tall = rows * window_, wide = columns * window_;
    x = pad(x, {0, 0, 0, 0}, {0, tall - height, wide - width, 0});
    const int64_t shift_y = window_ >= tall ? 0 : shift_, shift_x = window_ >= wide ? 0 : shift_;
    const bool shifts = shift_y + shift_x > 0;
    if (shifts) x = roll(x, {-shift_y, -shift_x}, {1, 2});
    x = permute(reshape(x, {x.dim(0), rows, window_, columns, window_, channels}), {0, 1, 3, 2, 4, 5});
    x = reshape(x, {-1, rows * columns, window_ * window_, channels});
    x = attended(x, shifts ? constant(*x.graph, shift_mask(tall, wide, window_, shift_y, shift_x)) : Value());
    x = permute(reshape(x, {-1, rows, columns, window_, window_, channels}), {0, 1, 3, 2, 4, 5});
    x = reshape(x, {-1, tall, wide, channels});
    if (shifts) x = roll(x, {shift_y, shift_x}, {1, 2});
    return slice(slice(x, 1, 0, height), 2, 0, width);
  }

 private:
  // x is [batch, windows, places, channels].
  Value attended(Value x, Value mask) const {
    const int64_t places = window_ * window_;
    std::vector<Value> parts;
    for (const Value part : chunk(qkv_(x), 3, -1))
      parts.push_back(
          transpose(unflatten(part, -1, {heads_, -1}), 2, 3));  // [batch, windows, heads, places, size]
    const double scale = 1 / std::sqrt(static_cast<double>(parts[0].dim(-1).value()));
    Value scores = matmul(parts[0] * scale, parts[1], false, true);
    const Value table =
        index_select(biases_.in(*x.graph), 0, constant(*x.graph, relative_positions(window_)));
    scores = scores + permute(reshape(table, {places, places, heads_}), {2, 0, 1});
    if (mask) scores = scores + mask;
    return proj_(flatten(transpose(matmul(softmax(scores), parts[2]), 2, 3), 3));
  }

  int64_t heads_, window_, shift_;
  nn::Linear qkv_, proj_;
  Parameter biases_;
};

class Block : public nn::Module<Block> {
 public:
  Block(const Scope& scope, const SwinConfig& c, int64_t size, int64_t heads, bool shifts)
      : Module(scope),
        norm1_(scope / "norm1", size),
        norm2_(scope / "norm2", size),
        attention_(scope / "attn", size, heads, c.window_size, shifts),
        mlp_(scope / "mlp", size, c.mlp_ratio * size) {}
  Value forward(Value x) const {
    x = x + attention_(norm1_(x));
    return x + mlp_(norm2_(x));
  }

 private:
  nn::LayerNorm norm1_, norm2_;
  WindowAttention attention_;
  vision::Mlp mlp_;
};

// Joins each two by two pixels: half the height and width, twice the channels.
class PatchMerging : public nn::Module<PatchMerging> {
 public:
  PatchMerging(const Scope& scope, int64_t size)
      : Module(scope),
        reduction_(scope / "reduction", 4 * size, 2 * size, {.bias = false}),
        norm_(scope / "norm", 4 * size) {}
  Value forward(Value x) const {
    x = pad(x, {0, 0, 0, 0}, {0, x.dim(1).value() % 2, x.dim(2).value() % 2, 0});
    std::vector<Value> corners;
    for (const auto& [y, column] : {std::pair(0, 0), {1, 0}, {0, 1}, {1, 1}})
      corners.push_back(slice(slice(x, 1, y, kToEnd, 2), 2, column, kToEnd, 2));
    return reduction_(norm_(concat(corners, -1)));
  }

 private:
  nn::Linear reduction_;
  nn::LayerNorm norm_;
};

nn::Layer make_layers(const Scope& scope, const SwinConfig& c) {
  const Scope features = scope / "features";
  nn::Sequential network({});
  network.append(
      nn::Conv2d(features / 0 / 0, 3, c.embed_dim, {c.patch_size}, {.conv = {.stride = {c.patch_size}}}));
  network.append([](Value x) { return movedim(x, 1, -1); });
  network.append(nn::LayerNorm(features / 0 / 2, c.embed_dim));
  int64_t size = c.embed_dim, number = 1;
  for (size_t stage = 0; stage < c.depths.size(); ++stage) {
    if (stage > 0) {
      network.append(PatchMerging(features / number++, size));
      size *= 2;
    }
    for (int64_t i = 0; i < c.depths[stage]; ++i)
      network.append(Block(features / number / i, c, size, c.num_heads[stage], i % 2 == 1));
    ++number;
  }
  network.append(nn::LayerNorm(scope / "norm", size));
  network.append([](Value x) { return mean(x, {1, 2}); });
  network.append(nn::Linear(scope / "head", size, c.num_classes));
  return network;
}

std::unique_ptr<Model> make_swin(const std::string& family, const SwinConfig& c, uint64_t seed) {
  if (c.depths.size() != c.num_heads.size() || c.depths.empty() || c.depths.size() > 8)
    fail("{}: depths has {} numbers and num_heads {}, expected one of each for every stage, 8 at most",
         family, c.depths.size(), c.num_heads.size());
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  check_size(family, "patch_size", c.patch_size, c.image_size);
  check_size(family, "window_size", c.window_size, 64);
  check_size(family, "embed_dim", c.embed_dim, vision::kMaxChannels);
  check_size(family, "mlp_ratio", c.mlp_ratio, 64);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  for (size_t i = 0; i < c.depths.size(); ++i) {
    check_size(family, "depths", c.depths[i], kMaxLayers);
    check_size(family, "num_heads", c.num_heads[i], kMaxHeads);
    if ((c.embed_dim << i) % c.num_heads[i] != 0)
      fail("{}: the {} channels of stage {} are no multiple of its {} heads", family, c.embed_dim << i, i + 1,
           c.num_heads[i]);
  }
  return vision::make_image_model(
      c.image_size, seed, {.resize = c.image_size == 224 ? 232 : 0, .filter = images::Filter::kBicubic},
      [&](const Scope& scope) { return make_layers(scope, c); });
}

}  // namespace

Family swin_t_family() {
  return {.name = "swin_t",
          .summary = "transformer with shifted windows over a picture, with torchvision's names",
          .network = make_network(SwinConfig{}, make_swin)};
}

}  // namespace genesis::models
