// A one-stage detector of the form of YOLOv8, with the names of its weights ("model.0.conv.weight", ...). Sizes are those of the
// smallest, n, times `width`. There is no loss: the zoo's models of boxes only infer.
//
// Entry point: forward  x f32[batch,3,size,size] -> output0 f32[batch, 4 + classes, places]: center, width and height in pixels, and a
// probability for each class, at every place of three grids with 8, 16 and 32 pixels between their places.
#include "models/families.h"
#include "models/families/vision/image_model.h"
#include "models/network.h"

namespace genesis::models {
namespace {

constexpr int64_t kBins = 16;  // an edge of a box is a distribution over distances 0 to 15

struct YoloConfig {
  double width = 1;
  int64_t num_classes = 80, image_size = 640;

  static void fields(auto& self, auto&& visit) {
    visit("width", self.width);
    visit("num_classes", self.num_classes);
    visit("image_size", self.image_size);
  }
};

class Conv : public nn::Module<Conv> {
 public:
  Conv(const Scope& scope, int64_t in, int64_t out, int64_t kernel = 1, int64_t stride = 1)
      : Module(scope),
        conv_(scope / "conv", in, out, {kernel}, vision::conv_options(out, kernel, stride, 1, false)),
        norm_(scope / "bn", out, 1e-3, 0.03) {}
  Value forward(Value x) const { return silu(norm_(conv_(x))); }

 private:
  nn::Conv2d conv_;
  nn::BatchNorm2d norm_;
};

// A narrow part of the channels goes through `blocks` pairs of convolutions; all steps are joined (C2f).
class Split : public nn::Module<Split> {
 public:
  Split(const Scope& scope, int64_t in, int64_t out, int64_t blocks, bool adds)
      : Module(scope),
        first_(scope / "cv1", in, out),
        last_(scope / "cv2", (2 + blocks) * (out / 2), out),
        adds_(adds) {
    for (int64_t i = 0; i < blocks; ++i)
      for (const char* name : {"cv1", "cv2"})
        blocks_.push_back({scope / "m" / i / name, out / 2, out / 2, 3});
  }
  Value forward(Value x) const {
    std::vector<Value> parts = chunk(first_(x), 2, 1);
    for (size_t i = 0; i < blocks_.size(); i += 2) {
      const Value y = blocks_[i + 1](blocks_[i](parts.back()));
      parts.push_back(adds_ ? parts.back() + y : y);
    }
    return last_(concat(parts, 1));
  }

 private:
  Conv first_, last_;
  std::vector<Conv> blocks_;
  bool adds_;
};

// Maxima over windows of 5, 9 and 13 (SPPF).
class Pyramid : public nn::Module<Pyramid> {
 public:
  Pyramid(const Scope& scope, int64_t size)
      : Module(scope), first_(scope / "cv1", size, size / 2), last_(scope / "cv2", 2 * size, size) {}
  Value forward(Value x) const {
    std::vector<Value> parts{first_(x)};
    for (int i = 0; i < 3; ++i)
      parts.push_back(max_pool(parts.back(), {.window = {5, 5}, .stride = {1, 1}, .padding = {2, 2}}));
    return last_(concat(parts, 1));
  }

 private:
  Conv first_, last_;
};

nn::Sequential head(const Scope& scope, int64_t in, int64_t hidden, int64_t out) {
  return nn::Sequential({Conv(scope / 0, in, hidden, 3), Conv(scope / 1, hidden, hidden, 3),
                         nn::Conv2d(scope / 2, hidden, out, {1})});
}

Value constant(Graph& graph, Tensor tensor) {
  return graph.constant(graph.model().add_tensor("grid", std::move(tensor)));
}

// Boxes and probabilities of three grids (Detect).
class Detector {
 public:
  Detector(const Scope& scope, const std::vector<int64_t>& channels, int64_t classes)
      : bins_((scope / "dfl" / "conv").buffer("weight", {1, kBins, 1, 1})) {
    const int64_t boxes = std::max(std::max<int64_t>(16, channels[0] / 4), 4 * kBins),
                  scores = std::max(channels[0], std::min<int64_t>(classes, 100));
    for (size_t i = 0; i < channels.size(); ++i) {
      const auto level = static_cast<int64_t>(i);
      boxes_.push_back(head(scope / "cv2" / level, channels[i], boxes, 4 * kBins));
      scores_.push_back(head(scope / "cv3" / level, channels[i], scores, classes));
    }
    std::vector<float> bins;
    for (int64_t i = 0; i < kBins; ++i) bins.push_back(static_cast<float>(i));
    bins_.model->set_initial(bins_.index, Tensor::of<float>({1, kBins, 1, 1}, bins));
  }
  Value operator()(const std::vector<Value>& grids) const {
    std::vector<Value> all;
    for (size_t i = 0; i < grids.size(); ++i) all.push_back(one_grid(grids[i], i));
    return concat(all, 2);
  }

 private:
  Value one_grid(Value x, size_t level) const {
    const int64_t height = x.dim(2).value(), width = x.dim(3).value(), stride = int64_t{8} << level;
    std::vector<float> places;  // [2, height * width]: x and y of the centers
    for (const bool is_y : {false, true})
      for (int64_t i = 0; i < height * width; ++i)
        places.push_back(static_cast<float>(is_y ? i / width : i % width) + 0.5f);
    const Value centers = constant(*x.graph, Tensor::of<float>({1, 2, height * width}, places));
    const Value shares =
        softmax(unflatten(flatten(boxes_[level](x), 2), 1, {4, kBins}), 2);  // [batch, 4, bins, places]
    const std::vector<Value> edges = chunk(sum(shares * reshape(bins_.in(*x.graph), {1, 1, kBins, 1}), {2}),
                                           2, 1);  // left and top, right and bottom
    const Value low = centers - edges[0], high = centers + edges[1];
    const auto scale = static_cast<double>(stride);
    return concat({(low + high) * (scale / 2), (high - low) * scale, sigmoid(flatten(scores_[level](x), 2))},
                  1);
  }

  Parameter bins_;
  std::vector<nn::Sequential> boxes_, scores_;
};

Value twice(Value x) { return repeat_interleave(repeat_interleave(x, 2, 2), 2, 3); }

nn::Layer make_layers(const Scope& root, const YoloConfig& c) {
  const Scope m = root / "model";
  const auto size = [&](int64_t channels) {
    return vision::rounded_channels(static_cast<double>(channels) * c.width);
  };
  const int64_t a = size(16), b = size(32), d = size(64), e = size(128), f = size(256);
  const nn::Sequential until4({Conv(m / 0, 3, a, 3, 2), Conv(m / 1, a, b, 3, 2), Split(m / 2, b, b, 1, true),
                               Conv(m / 3, b, d, 3, 2), Split(m / 4, d, d, 2, true)}),
      until6({Conv(m / 5, d, e, 3, 2), Split(m / 6, e, e, 2, true)}),
      until9({Conv(m / 7, e, f, 3, 2), Split(m / 8, f, f, 1, true), Pyramid(m / 9, f)});
  const Split up12(m / 12, f + e, e, 1, false), up15(m / 15, e + d, d, 1, false),
      down18(m / 18, d + e, e, 1, false), down21(m / 21, e + f, f, 1, false);
  const Conv shrink16(m / 16, d, d, 3, 2), shrink19(m / 19, e, e, 3, 2);
  const Detector detector(m / 22, {d, e, f}, c.num_classes);
  return [=](Value x) {
    const Value x4 = until4(x), x6 = until6(x4), x9 = until9(x6);
    const Value x12 = up12(concat({twice(x9), x6}, 1)), x15 = up15(concat({twice(x12), x4}, 1));
    const Value x18 = down18(concat({shrink16(x15), x12}, 1)), x21 = down21(concat({shrink19(x18), x9}, 1));
    return detector({x15, x18, x21});
  };
}

std::unique_ptr<Model> make_yolo(const std::string& family, const YoloConfig& c, uint64_t seed) {
  if (!(c.width > 0 && c.width <= 64)) fail("{}: width {} is not between 0 and 64", family, c.width);
  check_size(family, "num_classes", c.num_classes, vision::kMaxChannels);
  check_size(family, "image_size", c.image_size, vision::kMaxImage);
  if (c.image_size % 32 != 0) fail("{}: image_size {} is no multiple of 32", family, c.image_size);
  auto model = std::make_unique<Model>();
  const nn::Layer network = make_layers(Scope(*model, seed), c);
  GraphBuilder g(*model, "forward");
  g.output("output0", network(g.input("x", DType::f32, {symbol("batch"), 3, c.image_size, c.image_size})));
  images::set_image_settings(model->metadata, {.fit = images::Fit::kPad, .mean = {0}, .std = {1}});
  return model;
}

}  // namespace

Family yolo_n_family() {
  return {.name = "yolo_n",
          .summary = "detector of the form of YOLOv8, with the names of its weights; it only infers",
          .network = make_network(YoloConfig{}, make_yolo)};
}

}  // namespace genesis::models
