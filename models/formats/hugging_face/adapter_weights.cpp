#include "models/formats/hugging_face/adapter_weights.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "passes/core/match.h"
#include "schema/core/parallel.h"
#include "schema/file/json_text.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::hugging_face {
namespace {

using passes::kLoraA;
using passes::kLoraB;

constexpr const char* kChanged = "adapter_weights";  // metadata: {"modules": [...], "biases": [...]}
constexpr const char* kAdvice = "merge the adapter with PEFT (merge_and_unload) and import that model";

// Returns "a.b" for "base_model.model.a.b.lora_x", if the name ends so; else "".
std::string layer_of(const std::string& tensor, std::string_view end) {
  if (!tensor.starts_with(kAdapterPrefix) || !tensor.ends_with(end)) return "";
  return tensor.substr(kAdapterPrefix.size(), tensor.size() - kAdapterPrefix.size() - end.size());
}

// A matrix of f32 values.
struct Matrix {
  Tensor holder;
  int64_t rows, columns;
  float at(int64_t row, int64_t column) const {
    return holder.as<float>()[static_cast<size_t>(row * columns + column)];
  }
};

class WeightChanges {
 public:
  WeightChanges(Model& model, SafeTensors& file, const AdapterConfig& config)
      : model_(model), file_(file), config_(config) {}

  void run() {
    for (const std::string& name : names()) take_bias_of_addition(name);
    for (const std::string& name : names()) take_magnitudes(name);
    for (const std::string& name : names()) take_embedding(name);
    for (const std::string& name : names()) take_weight(name);
    if (modules_.empty() && biases_.empty()) return;
    model_.metadata[kChanged] = nlohmann::json{{"modules", modules_}, {"biases", biases_}}.dump();
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : file_.tensors) names.push_back(name);
    return names;
  }

  Matrix matrix(const Tensor& tensor, const std::string& name) const {
    const Shape& shape = tensor.type().shape;
    if (shape.rank() != 2 || !is_float(tensor.type().dtype))
      fail("{} is {}, expected a matrix of real numbers", name, tensor.type().to_string());
    return {tensor.to(DType::f32), shape[0].value(), shape[1].value()};
  }
  Matrix taken_matrix(const std::string& name) {
    const Matrix taken = matrix(file_.tensors.at(name), name);
    file_.tensors.erase(name);
    return taken;
  }

  // Throws Error for a weight that cannot be changed.
  void check_weight(int32_t state, const std::string& name) const {
    if (model_.state(state).encoded)
      fail("{} changes '{}', which is quantized: add the adapter to the model before that", name,
           model_.state(state).name);
  }

  void set_value(int32_t state, const Tensor& value, const std::string& name) {
    check_weight(state, name);
    const TensorType& type = model_.state(state).type;
    if (!(value.type().shape == type.shape) || !is_float(value.type().dtype))
      fail("{} is {}, the model's '{}' is {}", name, value.type().to_string(), model_.state(state).name,
           type.to_string());
    model_.set_initial(state, value.to(type.dtype));
  }

  // lora_B.bias: the layer's bias grows by it, scaled.
  void take_bias_of_addition(const std::string& name) {
    const std::string layer = layer_of(name, ".lora_B.bias");
    const int32_t bias = layer.empty() ? -1 : model_.find_state(layer + ".bias");
    if (bias < 0) return;
    const double scale = config_.options_for({layer}).scale_of(layer);
    std::vector<double> sum = initial_value(model_.state(bias)).to_doubles();
    const std::vector<double> added = file_.tensors.at(name).to_doubles();
    if (added.size() != sum.size())
      fail("{} has {} values, the layer's bias has {}", name, added.size(), sum.size());
    std::vector<float> values;
    for (size_t i = 0; i < sum.size(); ++i) values.push_back(static_cast<float>(sum[i] + scale * added[i]));
    set_value(bias, Tensor::of<float>(model_.state(bias).type.shape.sizes(), values), name);
    biases_.insert(layer + ".bias");
    file_.tensors.erase(name);
  }

  // Returns w + scale b a, [rows, columns].
  static std::vector<float> sum_of(const Matrix& w, const Matrix& b, const Matrix& a, double scale) {
    std::vector<float> sum(static_cast<size_t>(w.rows * w.columns));
    in_parallel(w.rows, 16, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row)
        for (int64_t column = 0; column < w.columns; ++column) {
          double product = 0;
          for (int64_t r = 0; r < a.rows; ++r)
            product += static_cast<double>(b.at(row, r)) * static_cast<double>(a.at(r, column));
          sum[static_cast<size_t>(row * w.columns + column)] =
              static_cast<float>(static_cast<double>(w.at(row, column)) + scale * product);
        }
    });
    return sum;
  }

  // DoRA: each row of w + scale b a gets the length that the magnitudes say.
  void take_magnitudes(const std::string& name) {
    std::string layer = layer_of(name, ".lora_magnitude_vector");
    if (layer.empty()) layer = layer_of(name, ".lora_magnitude_vector.weight");
    const int32_t state = layer.empty() ? -1 : model_.find_state(layer + ".weight");
    const std::string tensors = std::string(kAdapterPrefix) + layer, a_name = tensors + std::string(kLoraA),
                      b_name = tensors + std::string(kLoraB);
    if (state < 0 || !file_.tensors.contains(a_name) || !file_.tensors.contains(b_name)) return;
    check_weight(state, name);
    const Matrix a = taken_matrix(a_name), b = taken_matrix(b_name),
                 w = matrix(initial_value(model_.state(state)), layer + ".weight");
    const std::vector<double> magnitudes = file_.tensors.at(name).to_doubles();
    check_product(w, b, a, name);
    if (std::ssize(magnitudes) != w.rows)
      fail("{} has {} values, '{}.weight' has {} rows", name, magnitudes.size(), layer, w.rows);
    std::vector<float> sum = sum_of(w, b, a, config_.options_for({layer}).scale_of(layer));
    for (int64_t row = 0; row < w.rows; ++row) scale_row(sum, row, w.columns, magnitudes);
    set_value(state, Tensor::of<float>({w.rows, w.columns}, sum), name);
    modules_.insert(layer);
    file_.tensors.erase(name);
  }

  static void scale_row(std::vector<float>& sum, int64_t row, int64_t columns,
                        const std::vector<double>& magnitudes) {
    const auto begin = sum.begin() + row * columns, end = begin + columns;
    double squares = 0;
    for (auto at = begin; at != end; ++at) squares += static_cast<double>(*at) * static_cast<double>(*at);
    const double factor = squares > 0 ? magnitudes[static_cast<size_t>(row)] / std::sqrt(squares) : 0;
    for (auto at = begin; at != end; ++at) *at = static_cast<float>(static_cast<double>(*at) * factor);
  }

  static void check_product(const Matrix& w, const Matrix& b, const Matrix& a, const std::string& name) {
    if (b.rows != w.rows || a.columns != w.columns || b.columns != a.rows)
      fail("the adapter of {} is [{}, {}] times [{}, {}], the weight is [{}, {}]", name, b.rows, b.columns,
           a.rows, a.columns, w.rows, w.columns);
  }

  // An embedding [tokens, features] grows by (b a)^T, a [rank, tokens], b [features, rank].
  void take_embedding(const std::string& name) {
    const std::string layer = layer_of(name, ".lora_embedding_A");
    const int32_t state = layer.empty() ? -1 : model_.find_state(layer + ".weight");
    const std::string tensors = std::string(kAdapterPrefix) + layer, b_name = tensors + ".lora_embedding_B";
    if (state < 0 || !file_.tensors.contains(b_name)) return;
    check_alone(state, name);
    // PEFT saves the embedding beside its adapter and loads it from there.
    if (const auto base = file_.tensors.find(tensors + ".base_layer.weight"); base != file_.tensors.end()) {
      set_value(state, base->second, base->first);
      file_.tensors.erase(base);
    }
    check_weight(state, name);
    const Matrix a = matrix(transposed(taken_matrix(name)), name),
                 b = matrix(transposed(taken_matrix(b_name)), b_name),
                 w = matrix(initial_value(model_.state(state)), layer + ".weight");
    check_product(w, a, b, name);
    const std::vector<float> sum = sum_of(w, a, b, config_.options_for({layer}).scale_of(layer));
    set_value(state, Tensor::of<float>({w.rows, w.columns}, sum), name);
    modules_.insert(layer);
  }

  static Tensor transposed(const Matrix& x) {
    std::vector<float> values;
    for (int64_t column = 0; column < x.columns; ++column)
      for (int64_t row = 0; row < x.rows; ++row) values.push_back(x.at(row, column));
    return Tensor::of<float>({x.columns, x.rows}, values);
  }

  // A weight that was trained whole, or a trained bias.
  void take_weight(const std::string& name) {
    if (name.find(".lora_") != std::string::npos || !name.starts_with(kAdapterPrefix)) return;
    std::string weight = name.substr(kAdapterPrefix.size());
    constexpr std::string_view kBase = ".base_layer";
    if (const size_t at = weight.find(kBase); at != std::string::npos) weight.erase(at, kBase.size());
    const std::string module = weight.substr(0, weight.rfind('.'));
    const int32_t state = model_.find_state(weight);
    if (config_.trains_biases() && weight.ends_with(".bias") && state >= 0) {
      set_value(state, file_.tensors.at(name), name);
      biases_.insert(weight);
      file_.tensors.erase(name);
      return;
    }
    if (!config_.saves(module)) return;
    if (state < 0)
      fail(
          "{}: it is of a module that was trained whole (modules_to_save), and the model has no such weight, "
          "or "
          "shares it with its embedding: {}",
          name, kAdvice);
    check_alone(state, name);
    if (is_stored_in_out(model_) && model_.state(state).type.shape.rank() == 2 && is_product(state) &&
        module.find("lm_head") == std::string::npos)
      fail("{}: it is of a module that was trained whole (modules_to_save) and is stored as [in, out]: {}",
           name, kAdvice);
    set_value(state, file_.tensors.at(name), name);
    modules_.insert(module);
    file_.tensors.erase(name);
  }

  // Returns true if a linear layer, or an embedding, reads the weight.
  template <class Op>
  bool is_read_by(int32_t state) const {
    for (const auto& entry : model_.entries())
      for (const Node& node : entry->nodes()) {
        if (!passes::is<Op>(node)) continue;
        for (const ValueId id : node.inputs)
          if (const ValueInfo& value = entry->value(id);
              value.kind == ValueKind::kState && value.index == state)
            return true;
      }
    return false;
  }
  bool is_product(int32_t state) const { return is_read_by<ops::Linear>(state); }

  // PEFT changes an embedding and leaves the head that shares its weight as it was, unless it is told to change both.
  void check_alone(int32_t state, const std::string& name) const {
    if (config_.ties_weights() || !is_product(state) || !is_read_by<ops::Embedding>(state)) return;
    fail("{}: it changes the embedding alone, and the model's head shares the weight '{}': {}", name,
         model_.state(state).name, kAdvice);
  }

  Model& model_;
  SafeTensors& file_;
  const AdapterConfig& config_;
  std::set<std::string> modules_, biases_;
};

}  // namespace

void change_weights(Model& model, SafeTensors& file, const AdapterConfig& config) {
  WeightChanges(model, file, config).run();
}

void add_changed_weights(const Model& model, SafeTensors& file, nlohmann::ordered_json& config) {
  const auto at = model.metadata.find(kChanged);
  if (at == model.metadata.end()) return;
  const nlohmann::json changed = parse_json_text(at->second);
  const auto add = [&](const std::string& state, const std::string& tensor) {
    if (const int32_t index = model.find_state(state); index >= 0 && !model.state(index).encoded)
      file.tensors.insert_or_assign(std::string(kAdapterPrefix) + tensor, initial_value(model.state(index)));
  };
  for (const std::string module : changed.at("modules"))
    for (const char* part : {".weight", ".bias"}) add(module + part, module + part);
  for (const std::string bias : changed.at("biases")) {
    const std::string layer = bias.substr(0, bias.rfind('.'));
    const bool has_adapter = model.find_state(layer + std::string(kLoraA)) >= 0;
    add(bias, has_adapter ? layer + ".base_layer.bias" : bias);
  }
  if (!changed.at("modules").empty()) config["modules_to_save"] = changed.at("modules");
  if (!changed.at("biases").empty()) config["bias"] = "all";
}

}  // namespace genesis::models::hugging_face
