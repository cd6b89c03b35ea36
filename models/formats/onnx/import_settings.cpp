#include "models/formats/onnx/import_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"
#include "schema/file/other_formats/onnx/tensor_data.h"

namespace genesis::models::onnx {
namespace {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

Dim size_of(const std::string& text) {
  const Dim size = Dim::parse(text);
  std::vector<std::string> symbols;
  size.collect_symbols(symbols);
  Bindings ones;
  for (const std::string& symbol : symbols) ones[symbol] = 1;
  if (size.substitute(ones).value() < 0) fail("expected a size, such as 1 or 32*h, got '{}'", text);
  return size;
}

Shape shape_of(const std::string& text) {
  Shape shape;
  for (const std::string& word : split_list(text)) shape.push_back(size_of(word));
  return shape;
}

// Returns the value of an input of rank 0 or 1, in its dtype.
Tensor value_of(const OnnxType& type, const std::string& text) {
  const auto dtype = onnx_storage(static_cast<OnnxElement>(type.element));
  if (!dtype || type.shape.size() > 1) fail("a value is read for numbers and lists of numbers only");
  std::vector<double> reals;
  std::vector<int64_t> integers;
  for (const std::string& word : split_list(text)) {
    const auto number = parse_number<double>(word);
    if (!number) fail("'{}' is no number", word);
    reals.push_back(*number);
    integers.push_back(parse_number<int64_t>(word).value_or(static_cast<int64_t>(*number)));
  }
  const bool is_list = !type.has_shape || type.shape.size() == 1;
  if (!is_list && reals.size() != 1) fail("expected one number, got {}", reals.size());
  const std::vector<int64_t> sizes =
      is_list ? std::vector{static_cast<int64_t>(reals.size())} : std::vector<int64_t>{};
  if (*dtype == DType::i64) return Tensor::of(sizes, integers);
  if (is_float(*dtype)) return Tensor::of(sizes, reals).to(*dtype);
  return dispatch(*dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> numbers;
    if constexpr (std::is_integral_v<T>)
      for (const int64_t integer : integers) numbers.push_back(static_cast<T>(integer));
    return Tensor::of(sizes, numbers);
  });
}

std::set<std::string> named_sizes(const OnnxGraph& graph) {
  std::set<std::string> names;
  for (const std::string& input : graph.inputs) {
    const auto type = graph.types.find(input);
    if (type == graph.types.end()) continue;
    for (const std::string& size : type->second.shape)
      if (size != "?" && !std::ranges::all_of(size, [](unsigned char c) { return std::isdigit(c); }))
        names.insert(size);
  }
  return names;
}

// Adds the names by which loops of a graph and of its bodies are given a limit.
void add_loops(const std::vector<OnnxNode>& nodes, std::set<std::string>& names) {
  for (const OnnxNode& node : nodes) {
    if (node.op == "Loop") names.insert(name_of_loop(node));
    for (const OnnxAttribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) add_loops(body->nodes, names);
  }
}

int64_t steps_of(const std::string& text) {
  const auto steps = parse_number<int64_t>(text);
  if (!steps || *steps < 1) fail("expected a number of steps of at least 1, got '{}'", text);
  return *steps;
}

// Returns what is before the ending, if the key has it.
std::optional<std::string> before(const std::string& key, std::string_view ending) {
  if (!key.ends_with(ending)) return std::nullopt;
  return key.substr(0, key.size() - ending.size());
}

}  // namespace

std::string name_of_loop(const OnnxNode& node) {
  if (!node.name.empty()) return node.name;
  const auto named = std::ranges::find_if(node.outputs, [](const auto& name) { return !name.empty(); });
  return named == node.outputs.end() ? "" : *named;
}

ImportOptions options_of(const OnnxFile& file, const std::map<std::string, std::string>& settings) {
  ImportOptions options;
  const std::set<std::string> sizes = named_sizes(file.graph);
  std::set<std::string> loops;
  add_loops(file.graph.nodes, loops);
  for (const OnnxFunction& function : file.functions) add_loops(function.nodes, loops);
  const auto input_named = [&](const std::string& name) -> const OnnxType* {
    const bool is_input = std::ranges::find(file.graph.inputs, name) != file.graph.inputs.end();
    const auto type = file.graph.types.find(name);
    return is_input && type != file.graph.types.end() ? &type->second : nullptr;
  };
  for (const auto& [key, text] : settings) {
    const auto read = [&, &key = key, &text = text] {
      const auto shaped = before(key, ".shape"), limited = before(key, ".steps");
      if (shaped && input_named(*shaped)) {
        options.shapes[*shaped] = shape_of(text);
      } else if (limited && loops.contains(*limited)) {
        options.steps[*limited] = steps_of(text);
      } else if (sizes.contains(key)) {
        options.sizes[key] = size_of(text);
      } else if (const OnnxType* type = input_named(key)) {
        options.values[key] = value_of(*type, text);
      } else {
        const auto list = [](const auto& names) {
          return names.empty() ? "there is none" : fmt::format("{}", fmt::join(names, ", "));
        };
        fail("expected a named size ({}), INPUT.shape, an input ({}) or LOOP.steps ({})", list(sizes),
             fmt::join(file.graph.inputs, ", "), list(loops));
      }
    };
    with_context(read, [&, &key = key, &text = text] { return fmt::format("in --set {}={}", key, text); });
  }
  return options;
}

}  // namespace genesis::models::onnx
