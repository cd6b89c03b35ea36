// Tests types of ONNX values that a file does not contain, against ONNX's own shape inference; the names of nodes as
// layers; and the bodies of If and Loop.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "schema/core/error.h"
#include "tools/viz/other_formats/onnx_graph.h"
#include "tools/viz/other_formats/onnx_type_call.h"

namespace genesis::testing {
namespace {

// Made by tests/tools/viz/onnx_types.py and tests/tools/viz/onnx_bodies.py.
#include "tests/tools/viz/onnx_bodies.inc"
#include "tests/tools/viz/onnx_types.inc"

using viz::OnnxDim;
using Kind = viz::ShownValue::Kind;

template <size_t kBytes>
viz::ShownGraph shown(const unsigned char (&model)[kBytes]) {
  return viz::shown_graph(read_onnx_from(std::as_bytes(std::span(model))));
}

std::string text(const OnnxType& type) {
  return fmt::format("{}[{}]", type.dtype,
                     type.has_shape ? fmt::format("{}", fmt::join(type.shape, ",")) : "...");
}

std::map<std::string, OnnxType> types_by_name(const viz::ShownGraph& graph) {
  std::map<std::string, OnnxType> types;
  for (const viz::ShownValue& value : graph.values) types[value.name] = value.type;
  return types;
}

// ONNX's own inference is the reference. Ours may know more where the reference knows nothing ("?").
TEST(OnnxTypes, AreThoseThatOnnxInfers) {
  const auto types = types_by_name(shown(kOperatorsModel));
  for (const auto& [name, expected] : kOperatorTypes) {
    ASSERT_TRUE(types.contains(name)) << name;
    OnnxType type = types.at(name);
    const std::string said = expected;
    std::vector<OnnxDim> dims;
    const std::string inner = said.substr(said.find('[') + 1, said.size() - said.find('[') - 2);
    for (size_t begin = 0; begin < inner.size();) {
      const size_t end = std::min(inner.find(',', begin), inner.size());
      dims.push_back(inner.substr(begin, end - begin));
      begin = end + 1;
    }
    for (size_t i = 0; i < std::min(dims.size(), type.shape.size()); ++i)
      if (dims[i] == "?") type.shape[i] = "?";
    EXPECT_EQ(text(type), said) << name;
  }
}

// ONNX's inference gives up on these sizes.
TEST(OnnxTypes, KeepTheNamesOfSizes) {
  const auto types = types_by_name(shown(kOperatorsModel));
  EXPECT_EQ(text(types.at("copied")), "f32[batch,4,?]");  // seq * 16: a product has no name
  EXPECT_EQ(text(types.at("resized")), "f32[batch,8,16,18]");
}

TEST(OnnxTypes, ConstantsBelongToTheNodesThatReadThem) {
  const viz::ShownGraph graph = shown(kOperatorsModel);
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  std::map<std::string, Pairs> attributes;
  for (const viz::ShownNode& node : graph.nodes) {
    EXPECT_NE(node.op, "Constant");
    attributes[node.path.back()] = node.attributes;
  }
  EXPECT_EQ(attributes["clipped"], (Pairs{{"min", "0"}, {"max", "6"}}));
  EXPECT_EQ(attributes["squeezed"], (Pairs{{"axes", "[2,3]"}}));
}

std::string place(const viz::ShownNode& node) {
  return node.op + " " + fmt::format("{}", fmt::join(node.path, "/"));
}

const viz::ShownNode& node_at(const viz::ShownGraph& graph, const std::string& wanted) {
  for (const viz::ShownNode& node : graph.nodes)
    if (place(node) == wanted) return node;
  ADD_FAILURE() << "no node " << wanted;
  return graph.nodes.front();
}

std::vector<std::string> names(const viz::ShownGraph& graph, const std::vector<int32_t>& values) {
  std::vector<std::string> found;
  for (const int32_t value : values) found.push_back(graph.values[static_cast<size_t>(value)].name);
  return found;
}

using Names = std::vector<std::string>;

TEST(OnnxBodies, StandBeforeTheNodeThatRunsThem) {
  const viz::ShownGraph graph = shown(kBodiesModel);
  Names places;
  for (const viz::ShownNode& node : graph.nodes) places.push_back(place(node));
  EXPECT_EQ(places, (Names{"Relu net/act/Relu", "Neg net/choice/else_branch/deep/Neg",
                           "Mul net/choice/else_branch/deep/Mul", "Add net/choice/then_branch/Add",
                           "If net/choice/If", "body inputs turns/body/inputs", "Add turns/body/add",
                           "Identity turns/body/on", "Loop turns/Loop"}));
  EXPECT_EQ(names(graph, node_at(graph, "If net/choice/If").inputs), (Names{"flag", "t", "t"}));
  EXPECT_EQ(names(graph, node_at(graph, "body inputs turns/body/inputs").inputs),
            (Names{"count", "flag", "chosen"}));
  EXPECT_EQ(names(graph, node_at(graph, "Loop turns/Loop").inputs),
            (Names{"count", "flag", "chosen", "again", "sum", "sum"}));
}

TEST(OnnxBodies, HaveTypesInsideAndBehindThem) {
  const viz::ShownGraph graph = shown(kBodiesModel);
  const auto types = types_by_name(graph);
  EXPECT_EQ(text(types.at("chosen")), "f32[batch,4]");
  EXPECT_EQ(text(types.at("turn")), "i64[]");
  EXPECT_EQ(text(types.at("last")), "f32[batch,?]");
  EXPECT_EQ(types.at("sums").dtype, "f32");
  const viz::ShownNode& add = node_at(graph, "Add net/choice/then_branch/Add");
  EXPECT_EQ(text(graph.values[static_cast<size_t>(add.outputs[0])].type), "f32[batch,4]");
}

OnnxNode named(const std::string& name, const std::string& scope = "") {
  return {.name = name, .op = "Add", .scope = scope};
}

// Groups are only made for names that show layers.
TEST(OnnxNames, AreScopesWhereTheyShowLayers) {
  OnnxGraph graph;
  for (const char* name : {"layers.0.attn.weight", "fc.weight", "conv2d_3.w_0", "p2o.helper.constant.12"})
    graph.tensors.push_back(
        {name, {.dtype = "f32", .has_shape = true, .shape = {"4", "4"}, .bits = 32}, {}, {}});
  const viz::OnnxNames names(graph);
  const auto path = [&](const std::string& name) { return names.path_of(named(name)); };
  EXPECT_EQ(path("/model/layers.1/MatMul"), (Names{"model", "layers", "1", "MatMul"}));
  EXPECT_EQ(path("layers.0.attn.softmax"), (Names{"layers", "0", "attn", "softmax"}));
  EXPECT_EQ(path("layers.0.rotary.mul"), (Names{"layers", "0", "rotary.mul"}));
  EXPECT_EQ(path("fc.add"), (Names{"fc", "add"}));
  EXPECT_EQ(path("p2o.Add.12"), Names{"p2o.Add.12"});
  EXPECT_EQ(path("Conv_12"), Names{"Conv_12"});
  EXPECT_EQ(names.path_of(named("node_add_3", "model.layers.4")),
            (Names{"model", "layers", "4", "node_add_3"}));
}

TEST(OnnxTypes, MergeWhatIsKnown) {
  const OnnxType said{.dtype = "f32", .has_shape = true, .shape = {"batch", "?", "n"}, .bits = 32};
  const OnnxType inferred{.dtype = "f16", .has_shape = true, .shape = {"b", "7", "9"}, .bits = 16};
  EXPECT_EQ(text(viz::merged(said, inferred)), "f32[batch,7,9]");
  EXPECT_EQ(text(viz::merged({}, inferred)), "f16[b,7,9]");
  EXPECT_EQ(text(viz::common(said, said)), "f32[batch,?,n]");
  EXPECT_EQ(text(viz::common(said, inferred)), "unknown[...]");
}

// Sizes that overflow 64 bits are unknown, and so are those of contradicting inputs.
TEST(OnnxTypes, SurviveSizesThatCannotBe) {
  EXPECT_EQ(viz::dim_of(viz::times(int64_t{1} << 62, 4)), "?");
  EXPECT_EQ(viz::dim_of(viz::plus(int64_t{1} << 62, int64_t{1} << 62)), "?");
  EXPECT_EQ(viz::broadcast(OnnxDim("3"), OnnxDim("4")), "?");
  EXPECT_EQ(viz::broadcast(OnnxDim("batch"), OnnxDim("4")), "4");
  EXPECT_FALSE(viz::axis_of(INT64_MIN, 3));
}

// Every truncated file, and every file with a changed byte, is an Error or another graph.
template <size_t kBytes>
void damage(const unsigned char (&model)[kBytes], size_t step) {
  const auto bytes = std::as_bytes(std::span(model));
  const std::vector<std::byte> whole(bytes.begin(), bytes.end());
  for (size_t at = 0; at < whole.size(); at += step)
    for (const int value : {0x00, 0x7F, 0xFF}) {
      std::vector<std::byte> damaged = whole;
      damaged[at] = static_cast<std::byte>(value);
      try {
        static_cast<void>(viz::shown_graph(read_onnx_from(damaged)));
      } catch (const Error&) {
      }
    }
}

TEST(OnnxTypes, SurviveDamage) {
  damage(kOperatorsModel, 97);
  damage(kBodiesModel, 2);
}

}  // namespace
}  // namespace genesis::testing
