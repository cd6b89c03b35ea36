#include "executor/inspection/make_inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "executor/runtime/host_memory.h"
#include "passes/core/bind.h"
#include "schema/core/number_range.h"
#include "schema/core/philox.h"
#include "schema/core/type_limits.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/graph/near_names.h"

namespace genesis {
namespace {

Tensor filled(const TensorType& type, double value) {
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(type.dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_integral_v<T>) {
      // The largest i64 is not a double; 2^63 is the first double that does not fit.
      const double low = static_cast<double>(std::numeric_limits<T>::min()),
                   end = std::ldexp(1.0, std::numeric_limits<T>::digits);
      if (!(value >= low && value < end) || value != std::floor(value))
        fail("{} is no value of {}: expected a whole number in its range", value, name_of(type.dtype));
    }
    using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;
    const auto element = static_cast<T>(static_cast<Wide>(value));
    if (std::isfinite(value) && !std::isfinite(static_cast<double>(element)))
      fail("{} is no value of {}: it is beyond its range", value, name_of(type.dtype));
    std::fill_n(reinterpret_cast<T*>(data), tensor.numel(), element);
  });
  return tensor;
}

// Returns random values: real numbers are uniform in [0, 1), and integers are small, so that they can serve as
// indices.
Tensor random(const TensorType& type, uint64_t seed, uint64_t stream) {
  std::vector<float> values(static_cast<size_t>(type.numel()));
  fill_uniform(values, seed, stream, 0, is_float(type.dtype) ? 1 : 2);
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(type.dtype, [&]<class T>(TypeTag<T>) {
    for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<T*>(data)[i] = static_cast<T>(values[i]);
  });
  return tensor;
}

// Parses a fill value, which may also be nan, inf or -inf.
double parse_value(const std::string& flag, const std::string& text) {
  if (text == "nan") return std::nan("");
  if (text == "inf" || text == "-inf") return text == "inf" ? INFINITY : -INFINITY;
  const std::optional<double> value = parse_number<double>(text);
  if (!value) fail_setting("{}: '{}' is not a number that f64 can hold", flag, text);
  return *value;
}

std::pair<std::string, std::string> split(const std::string& flag, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) fail_setting("{} {}: expected NAME=VALUE", flag, text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

const ValueInfo* find_input(const Graph& graph, const std::string& name) {
  for (ValueId id : graph.inputs())
    if (graph.value(id).name == name) return &graph.value(id);
  return nullptr;
}

class InputMaker {
 public:
  InputMaker(const Graph& graph, const InputRequest& request)
      : graph_(graph),
        request_(request),
        tensors_(request.given),
        sizes_(request.sizes),
        bindings_(request.sizes) {}

  MadeInputs make() {
    for (const std::string& input : request_.inputs) read(input);
    check_symbols();
    learn_sizes();
    for (ValueId id : graph_.inputs()) invent(graph_.value(id), static_cast<uint64_t>(id.index));
    return {std::move(tensors_), std::move(invented_), random_};
  }

 private:
  void check_symbols() const {
    const std::vector<std::string> known = passes::symbols_of(graph_);
    for (const auto& [symbol, size] : bindings_)
      if (std::ranges::find(known, symbol) == known.end())
        fail("--size {}={}: entry point '{}' has no such size{}; it has: {}", symbol, size, graph_.name(),
             did_you_mean(symbol, known), known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
  }

  void read(const std::string& input) {
    if (file_ending(input) == ".safetensors" && input.find('=') == std::string::npos) {
      return read_all(input);
    }
    const auto [name, value] = split("--input", input);
    if (tensors_.contains(name) || made_.contains(name)) fail("--input {}: '{}' is given twice", input, name);
    if (!find_input(graph_, name)) {
      tensors_[name] = Tensor::zeros({DType::f32, {}});  // the session's error lists the existing inputs
    } else if (file_ending(value) == ".npy") {
      tensors_[name] = read_npy(value);
    } else if (file_ending(value) == ".safetensors") {
      const auto contents = read_safetensors(value);
      const auto at = contents.tensors.find(name);
      if (at == contents.tensors.end()) fail("{} has no tensor '{}'", value, name);
      tensors_[name] = at->second;
    } else if (value != "random" && value != "zeros" && value.rfind("full:", 0) != 0) {
      fail_setting("--input {}: expected a .npy or .safetensors file, random, zeros or full:VALUE", input);
    } else {
      made_[name] = value;
    }
  }

  void read_all(const std::string& path) {
    bool used = false;
    for (const auto& [name, tensor] : read_safetensors(path).tensors) {
      if (!find_input(graph_, name)) continue;
      used = true;
      if (!tensors_.emplace(name, tensor).second) fail("--input {}: '{}' is given twice", path, name);
    }
    std::vector<std::string> names;
    for (ValueId id : graph_.inputs()) names.push_back(graph_.value(id).name);
    if (!used)
      fail("{} holds none of the inputs of entry point '{}'; it takes: {}", path, graph_.name(),
           fmt::join(names, ", "));
  }

  // A symbol that is a whole dimension takes its size from the tensor given for that input.
  void learn_sizes() {
    for (const auto& [name, tensor] : tensors_) {
      const ValueInfo* input = find_input(graph_, name);
      if (!input || input->type.shape.rank() != tensor.type().shape.rank()) continue;
      for (int i = 0; i < input->type.shape.rank(); ++i) {
        if (input->type.shape[i].is_constant()) continue;
        learn_size(name, input->type.shape[i].to_string(), tensor.type().shape[i].value());
      }
    }
  }

  void learn_size(const std::string& name, const std::string& symbol, int64_t size) {
    const auto [at, fresh] = bindings_.try_emplace(symbol, size);
    if (!fresh && at->second != size && sizes_.contains(symbol))
      fail("--size {}={}: the tensor given for input '{}' has {} there", symbol, at->second, name, size);
  }

  void invent(const ValueInfo& input, uint64_t stream) {
    if (tensors_.contains(input.name)) return;
    if (!made_.contains(input.name)) invented_.push_back(input.name);
    std::vector<std::string> symbols;
    for (const Dim& dim : input.type.shape) dim.collect_symbols(symbols);
    for (const std::string& symbol : symbols) bindings_.try_emplace(symbol, 1);
    // A single number is a position, a length or a scale: a random one is seldom in its range.
    const bool is_number = input.type.shape.rank() <= 1 && input.type.shape.numel() == Dim(1);
    const std::string how = made_.contains(input.name) ? made_[input.name] : is_number ? "zeros" : "random";
    random_ = random_ || how == "random";
    tensors_[input.name] = with_context([&] { return made(type_of(input, how), input.name, how, stream); },
                                        [&] { return "for input '" + input.name + "'" + sizes_of(symbols); });
  }

  // Returns the type with sizes. Throws Error if this machine has no memory for it; random values also need f32
  // scratch memory.
  TensorType type_of(const ValueInfo& input, const std::string& how) const {
    const TensorType type{input.type.dtype, input.type.shape.substitute(bindings_)};
    check_type(type);
    check_host_has(type.bytes() + (how == "random" ? 4 * type.numel() : 0), type.to_string());
    return type;
  }

  Tensor made(const TensorType& type, const std::string& name, const std::string& how,
              uint64_t stream) const {
    if (how == "random") return random(type, request_.seed, stream);
    return filled(type, how == "zeros" ? 0 : parse_value("--input " + name, how.substr(5)));
  }

  // Returns " with --size batch=8".
  std::string sizes_of(const std::vector<std::string>& symbols) const {
    std::string text;
    for (const std::string& symbol : symbols)
      if (sizes_.contains(symbol))
        text += fmt::format("{} --size {}={}", text.empty() ? " with" : "", symbol, sizes_.at(symbol));
    return text;
  }

  const Graph& graph_;
  const InputRequest& request_;
  NamedTensors tensors_;
  std::map<std::string, std::string> made_;
  std::vector<std::string> invented_;
  bool random_ = false;    // true: some input is random
  const Bindings& sizes_;  // the requested sizes
  Bindings bindings_;      // these and the sizes learned from files
};

}  // namespace

MadeInputs make_inputs(const Graph& graph, const InputRequest& request) {
  return InputMaker(graph, request).make();
}

void write_outputs(const NamedTensors& outputs, const std::string& path) {
  if (file_ending(path) == ".npy") {
    if (outputs.size() != 1)
      fail("{} holds one array, the entry point gives {}: write a .safetensors file", path, outputs.size());
    return write_npy(path, outputs.begin()->second);
  }
  SafeTensors contents;
  contents.tensors = outputs;
  write_safetensors(path, contents);
}

Bindings parse_sizes(const std::vector<std::string>& sizes) {
  Bindings bindings;
  for (const std::string& text : sizes) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) fail_setting("--size {}: expected SYMBOL=SIZE", text);
    const auto size =
        number_or_fail<int64_t>(fmt::format("--size {}: expected SYMBOL=SIZE", text),
                                std::string_view(text).substr(equals + 1), at_least<int64_t>(0));
    if (!bindings.emplace(text.substr(0, equals), size).second)
      fail_setting("--size {}: '{}' is given twice", text, text.substr(0, equals));
  }
  return bindings;
}

void check_sizes_exist(const Model& model, const Bindings& sizes) {
  std::set<std::string> symbols;
  for (const auto& entry : model.entries())
    for (const std::string& symbol : passes::symbols_of(*entry)) symbols.insert(symbol);
  const std::vector<std::string> known(symbols.begin(), symbols.end());
  for (const auto& [symbol, size] : sizes)
    if (!symbols.contains(symbol))
      fail("--size {}={}: no entry point has such a size{}; they have: {}", symbol, size,
           did_you_mean(symbol, known), known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

void check_sizes_known(const Graph& entry, const Bindings& sizes) {
  std::string missing;
  for (const std::string& symbol : passes::symbols_of(entry))
    if (!sizes.contains(symbol)) missing += " --size " + symbol + "=N";
  if (!missing.empty())
    fail("entry point '{}' has sizes that are not known yet: give{}", entry.name(), missing);
}

}  // namespace genesis
