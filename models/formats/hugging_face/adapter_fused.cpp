#include "models/formats/hugging_face/adapter_fused.h"

#include <algorithm>
#include <set>

#include "models/formats/hugging_face/adapter_weights.h"
#include "models/formats/hugging_face/fused.h"

namespace genesis::models::hugging_face {
namespace {

using passes::kLoraA;
using passes::kLoraB;

constexpr std::string_view kWeight = ".weight";

std::string without(const std::string& name, std::string_view end) {
  return name.substr(0, name.size() - end.size());
}

std::string tensor_of(const std::string& layer, std::string_view part) {
  return std::string(kAdapterPrefix) + layer + std::string(part);
}

int64_t rows_of(const Model& model, const std::string& layer) {
  const int32_t state = model.find_state(layer + std::string(kWeight));
  return state < 0 ? 0 : model.state(state).type.shape[0].value();
}

// Returns the layers of the model that are the parts of a fused layer.
std::vector<std::string> parts_of_layer(const std::vector<FusedWeights>& fused, const std::string& layer) {
  std::vector<std::string> parts = parts_of(fused, layer + std::string(kWeight));
  for (std::string& part : parts) part = without(part, kWeight);
  return parts;
}

// Returns the layers that have an A in the file.
std::vector<std::string> layers_in(const SafeTensors& file) {
  std::vector<std::string> layers;
  for (const auto& [name, tensor] : file.tensors)
    if (name.starts_with(kAdapterPrefix) && name.ends_with(kLoraA))
      layers.push_back(without(name.substr(kAdapterPrefix.size()), kLoraA));
  return layers;
}

// The adapter of a part of a fused layer.
struct PartAdapter {
  std::string layer;
  int64_t rows = 0;  // B has as many rows as the layer's weight
  Tensor a, b;       // f32 [rank, in], [rows, rank]; empty handles without an adapter
  double scale = 0;  // alpha / rank

  int64_t rank() const { return a.empty_handle() ? 0 : a.type().shape[0].value(); }
};

class JoinedAdapter {
 public:
  explicit JoinedAdapter(std::vector<PartAdapter> parts) : parts_(std::move(parts)) {
    const auto& first =
        *std::ranges::find_if(parts_, [](const PartAdapter& part) { return part.rank() > 0; });
    scale_ = first.scale;
    columns_ = first.a.type().shape[1].value();
    shares_a_ = std::ranges::all_of(parts_, [&](const PartAdapter& part) {
      return part.rank() > 0 && part.scale == scale_ && part.a.type() == first.a.type() &&
             part.a.to_doubles() == first.a.to_doubles();
    });
    for (const PartAdapter& part : parts_) {
      rank_ = shares_a_ ? part.rank() : rank_ + part.rank();
      rows_ += part.rows;
    }
  }

  int64_t rank() const { return rank_; }
  double alpha() const { return scale_ * static_cast<double>(rank_); }

  Tensor a() const {
    std::vector<float> values;
    for (const PartAdapter& part : parts_) {
      if (part.rank() == 0 || (shares_a_ && !values.empty())) continue;
      const auto numbers = part.a.as<float>();
      values.insert(values.end(), numbers.begin(), numbers.end());
    }
    return Tensor::of<float>({rank_, columns_}, values);
  }

  Tensor b() const {
    std::vector<float> values(static_cast<size_t>(rows_ * rank_), 0);
    auto to = values.begin();
    int64_t column = 0;  // the first of the part
    for (const PartAdapter& part : parts_) {
      const auto factor = static_cast<float>(part.scale / scale_);
      for (int64_t row = 0; row < part.rows; ++row, to += rank_)
        for (int64_t r = 0; r < part.rank(); ++r)
          *(to + column + r) = part.b.as<float>()[static_cast<size_t>(row * part.rank() + r)] * factor;
      if (!shares_a_) column += part.rank();
    }
    return Tensor::of<float>({rows_, rank_}, values);
  }

 private:
  std::vector<PartAdapter> parts_;
  double scale_ = 1;
  int64_t rank_ = 0, rows_ = 0, columns_ = 0;
  bool shares_a_ = false;
};

Tensor taken(SafeTensors& file, const std::string& name) {
  const auto at = file.tensors.find(name);
  Tensor tensor = at->second.to(DType::f32);
  file.tensors.erase(at);
  return tensor;
}

}  // namespace

std::map<std::string, std::string> split_adapters(const Model& model, const std::vector<FusedWeights>& fused,
                                                  SafeTensors& file) {
  std::map<std::string, std::string> whole_of;
  for (const std::string& whole : layers_in(file)) {
    const std::vector<std::string> parts = parts_of_layer(fused, whole);
    const std::string a = tensor_of(whole, kLoraA), b = tensor_of(whole, kLoraB);
    if (parts.empty() || !file.tensors.contains(b)) continue;
    int64_t rows = 0;
    for (const std::string& part : parts) rows += rows_of(model, part);
    const Tensor all = file.tensors.at(b), shared = file.tensors.at(a);
    const Shape& shape = all.type().shape;
    if (shape.rank() != 2 || shape[0].value() != rows)
      fail("{} is {}, expected a matrix of {} rows: those of the model's layers {} to {}", b,
           all.type().to_string(), rows, parts.front(), parts.back());
    file.tensors.erase(a);
    file.tensors.erase(b);
    int64_t first = 0;
    for (const std::string& part : parts) {
      file.tensors.insert_or_assign(tensor_of(part, kLoraA), shared);
      file.tensors.insert_or_assign(tensor_of(part, kLoraB), rows_between(all, first, rows_of(model, part)));
      first += rows_of(model, part);
      whole_of[part] = whole;
    }
  }
  return whole_of;
}

passes::LoraOptions options_of_parts(passes::LoraOptions options,
                                     const std::map<std::string, std::string>& whole_of) {
  const auto give = [&](auto& values) {
    for (const auto& [part, whole] : whole_of)
      if (const auto at = values.find(whole); at != values.end()) values[part] = at->second;
    for (const auto& [part, whole] : whole_of) values.erase(whole);
  };
  give(options.ranks);
  give(options.alphas);
  return options;
}

void join_adapters(const Model& model, const std::vector<FusedWeights>& fused, SafeTensors& file,
                   passes::LoraOptions& options) {
  std::map<std::string, std::vector<std::string>> wholes;  // with their parts
  for (const std::string& layer : layers_in(file))
    for (const FusedWeights& one : fused)
      for (const std::string& part : one.parts)
        if (const std::string weight = layer + std::string(kWeight); weight.ends_with(part)) {
          const std::string whole = without(without(weight, part) + one.whole, kWeight);
          wholes[whole] = parts_of_layer(fused, whole);
        }
  for (const auto& [whole, layers] : wholes) {
    std::vector<PartAdapter> parts;
    for (const std::string& layer : layers) {
      PartAdapter& part = parts.emplace_back();
      part.layer = layer, part.rows = rows_of(model, layer), part.scale = options.scale_of(layer);
      if (!file.tensors.contains(tensor_of(layer, kLoraA))) continue;
      part.a = taken(file, tensor_of(layer, kLoraA));
      part.b = taken(file, tensor_of(layer, kLoraB));
    }
    const JoinedAdapter joined(std::move(parts));
    file.tensors.insert_or_assign(tensor_of(whole, kLoraA), joined.a());
    file.tensors.insert_or_assign(tensor_of(whole, kLoraB), joined.b());
    options.ranks[whole] = joined.rank();
    options.alphas[whole] = joined.alpha();
  }
  options.targets = layers_in(file);
}

}  // namespace genesis::models::hugging_face
