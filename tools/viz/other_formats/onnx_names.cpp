#include "tools/viz/other_formats/onnx_names.h"

#include <algorithm>

namespace genesis::viz {
namespace {

OnnxPath pieces(const std::string& text, const char* separators) {
  OnnxPath found;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    if (end > begin) found.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

// Returns false for a scale or a single number, which do not indicate a layer.
bool is_weight(const OnnxTensor& tensor) {
  const bool is_single =
      std::ranges::all_of(tensor.type.shape, [](const std::string& dim) { return dim == "1"; });
  return !is_single && (tensor.type.dtype.starts_with('f') || tensor.type.dtype == "bf16" ||
                        tensor.type.dtype.ends_with('8'));
}

}  // namespace

OnnxNames::OnnxNames(const OnnxGraph& graph) { learn(graph); }

void OnnxNames::learn(const OnnxGraph& graph) {
  for (const OnnxTensor& tensor : graph.tensors) learn(tensor.name, tensor);
  for (const OnnxNode& node : graph.nodes)
    for (const OnnxAttribute& attribute : node.attributes) {
      for (const auto& body : attribute.graphs) learn(*body);
      if (node.op == "Constant" && attribute.tensor && !node.outputs.empty())
        learn(node.outputs[0], *attribute.tensor);
    }
}

void OnnxNames::learn(const std::string& name, const OnnxTensor& tensor) {
  if (!is_weight(tensor) || name.find('/') != std::string::npos) return;
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1))
    scopes_.insert(name.substr(0, dot));
}

// Splits a name at dots where a weight has the same scope, or an enclosing scope of at least two parts. Other dots
// belong to the name.
OnnxPath OnnxNames::dotted(const std::string& name) const {
  const size_t last = name.rfind('.');
  for (size_t dot = last; dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    const std::string scope = name.substr(0, dot);
    const bool is_deep = scope.find('.') != std::string::npos;
    if (!scopes_.contains(scope) || (dot != last && !is_deep)) continue;
    OnnxPath path = pieces(scope, ".");
    path.push_back(name.substr(dot + 1));
    return path;
  }
  return {name};
}

OnnxPath OnnxNames::path_of(const OnnxNode& node) const {
  std::string name = node.name;
  if (name.empty()) name = node.outputs.empty() || node.outputs[0].empty() ? node.op : node.outputs[0];
  OnnxPath path = name.find('/') != std::string::npos ? pieces(name, "/.") : dotted(name);
  if (path.empty()) path = {name};
  const OnnxPath scope = pieces(node.scope, ".");
  path.insert(path.begin(), scope.begin(), scope.end());
  return path;
}

OnnxPath within(const OnnxPath& outer, const OnnxPath& path) {
  size_t same = 0;
  while (same + 1 < path.size() && same < outer.size() && path[same] == outer[same]) ++same;
  return {path.begin() + static_cast<std::ptrdiff_t>(same), path.end()};
}

}  // namespace genesis::viz
