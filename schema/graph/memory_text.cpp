#include "schema/graph/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace genesis {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns "layers.*.mlp" for "layers.3.mlp".
std::string without_numbers(std::string_view name) {
  std::string pattern;
  while (true) {
    const size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    pattern += is_number(part) ? "*" : part;
    if (dot == std::string_view::npos) return pattern;
    pattern += '.';
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

std::vector<FoldedTensors> fold_tensors(const std::vector<PeakTensor>& tensors) {
  std::vector<FoldedTensors> folded;
  std::map<std::pair<std::string, int64_t>, size_t> known;  // by pattern and bytes of one tensor
  for (const PeakTensor& tensor : tensors) {
    const std::string pattern = without_numbers(tensor.name);
    const auto [at, fresh] = known.try_emplace({pattern, tensor.bytes}, folded.size());
    if (fresh) folded.push_back({tensor.name});
    FoldedTensors& line = folded[at->second];
    if (line.name != tensor.name) line.name = pattern;
    ++line.count;
    line.bytes += tensor.bytes;
  }
  std::ranges::stable_sort(folded,
                           [](const FoldedTensors& a, const FoldedTensors& b) { return a.bytes > b.bytes; });
  return folded;
}

std::string label_of(const FoldedTensors& tensors) {
  return tensors.count == 1 ? tensors.name : fmt::format("{} x{}", tensors.name, tensors.count);
}

std::string memory_lines(const std::vector<PeakTensor>& tensors, size_t most) {
  const std::vector<FoldedTensors> folded = fold_tensors(tensors);
  const auto line = [](int64_t bytes, const std::string& name) {
    return fmt::format("\n  {:>12}  {}", human_bytes(bytes), name);
  };
  std::string text;
  FoldedTensors others;
  for (size_t i = 0; i < folded.size(); ++i) {
    if (i < most) {
      text += line(folded[i].bytes, label_of(folded[i]));
    } else {
      others.count += folded[i].count;
      others.bytes += folded[i].bytes;
    }
  }
  if (others.count > 0)
    text +=
        line(others.bytes, fmt::format("in {} other tensor{}", others.count, others.count == 1 ? "" : "s"));
  return text;
}

}  // namespace genesis
