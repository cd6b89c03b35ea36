#include "tools/viz/other_formats/onnx_parameters.h"

#include <fmt/ranges.h>

#include <array>
#include <string_view>

namespace genesis::viz {
namespace {

struct InputNames {
  const char* op;
  std::array<const char*, 5> names;
};

// Names of operator inputs, from https://github.com/onnx/onnx/blob/main/docs/Operators.md
constexpr InputNames kInputNames[] = {{"Clip", {"input", "min", "max"}},
                                      {"ConstantOfShape", {"shape"}},
                                      {"CumSum", {"x", "axis"}},
                                      {"Dropout", {"data", "ratio", "training_mode"}},
                                      {"Expand", {"input", "shape"}},
                                      {"Gather", {"data", "indices"}},
                                      {"GatherElements", {"data", "indices"}},
                                      {"GatherND", {"data", "indices"}},
                                      {"If", {"condition"}},
                                      {"Loop", {"trip_count", "condition"}},
                                      {"OneHot", {"indices", "depth", "values"}},
                                      {"Pad", {"data", "pads", "constant_value", "axes"}},
                                      {"Pow", {"base", "exponent"}},
                                      {"Range", {"start", "limit", "delta"}},
                                      {"ReduceL1", {"data", "axes"}},
                                      {"ReduceL2", {"data", "axes"}},
                                      {"ReduceLogSum", {"data", "axes"}},
                                      {"ReduceLogSumExp", {"data", "axes"}},
                                      {"ReduceMax", {"data", "axes"}},
                                      {"ReduceMean", {"data", "axes"}},
                                      {"ReduceMin", {"data", "axes"}},
                                      {"ReduceProd", {"data", "axes"}},
                                      {"ReduceSum", {"data", "axes"}},
                                      {"ReduceSumSquare", {"data", "axes"}},
                                      {"Reshape", {"data", "shape"}},
                                      {"Resize", {"x", "roi", "scales", "sizes"}},
                                      {"Slice", {"data", "starts", "ends", "axes", "steps"}},
                                      {"Split", {"input", "split"}},
                                      {"Squeeze", {"data", "axes"}},
                                      {"Tile", {"input", "repeats"}},
                                      {"TopK", {"x", "k"}},
                                      {"Trilu", {"input", "k"}},
                                      {"Unsqueeze", {"data", "axes"}},
                                      {"Upsample", {"x", "scales"}}};

}  // namespace

std::string onnx_input_name(const std::string& op, size_t input) {
  for (const auto& [known, names] : kInputNames)
    if (op == known && input < names.size() && names[input]) return names[input];
  return "input " + std::to_string(input);
}

std::string onnx_values_text(const OnnxTensor& tensor) {
  const std::string text = onnx_text(tensor);
  const size_t equals = text.find(" = ");
  return equals == std::string::npos ? "" : text.substr(equals + 3);
}

}  // namespace genesis::viz
