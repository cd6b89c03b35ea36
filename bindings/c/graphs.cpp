// Entry points that are written through the C interface: ops by name, with attributes as JSON.
#include <map>

#include "bindings/c/handles.h"
#include "builder/graph_builder.h"
#include "executor/plugin.h"
#include "schema/file/json_text.h"
#include "schema/graph/near_names.h"

struct gn_graph {
  std::shared_ptr<genesis::Model> model;
  genesis::GraphBuilder builder;
  std::vector<genesis::Value> values;
};

namespace genesis::c {
namespace {

using Json = nlohmann::ordered_json;

// Reads JSON as a value of the same kind as `standard`, the op's default.
struct AttributeReader {
  const std::string& name;
  const nlohmann::json& json;

  [[noreturn]] void refuse(const char* expected) const {
    fail("attribute '{}' is {}, expected {}", name, json.dump(), expected);
  }
  template <class T>
  T as(bool fits, const char* expected) const {
    if (!fits) refuse(expected);
    return json.get<T>();
  }
  AttrValue operator()(bool) const { return as<bool>(json.is_boolean(), "true or false"); }
  AttrValue operator()(int64_t) const {
    if (json.is_number_float()) return json.get<double>();  // a Scalar takes both
    return as<int64_t>(json.is_number_integer(), "a whole number");
  }
  AttrValue operator()(double) const {
    if (json.is_number_integer()) return json.get<int64_t>();
    return as<double>(json.is_number(), "a number");
  }
  AttrValue operator()(const std::string&) const { return as<std::string>(json.is_string(), "a text"); }
  AttrValue operator()(DType) const {
    const auto dtype = parse_dtype(as<std::string>(json.is_string(), "the name of a dtype"));
    if (!dtype) refuse("the name of a dtype, such as \"f32\"");
    return *dtype;
  }
  AttrValue operator()(const Shape&) const {
    if (json.is_string()) return Shape::parse(json.get<std::string>());
    if (!json.is_array()) refuse("a list of sizes");
    Shape shape;
    for (const auto& size : json) {
      if (size.is_string())
        shape.push_back(Dim::parse(size.get<std::string>()));
      else if (size.is_number_integer())
        shape.push_back(size.get<int64_t>());
      else
        refuse("a list of whole numbers and names of sizes");
    }
    return shape;
  }
  template <class T>
  AttrValue operator()(const std::vector<T>&) const {
    if (!json.is_array()) refuse("a list");
    if constexpr (std::is_same_v<T, int64_t>)  // the conversion below would cut off fractions
      for (const auto& item : json)
        if (!item.is_number_integer()) refuse("a list of whole numbers");
    try {
      return json.get<std::vector<T>>();
    } catch (const nlohmann::json::exception&) {
      refuse("a list of values of one kind");
    }
  }
};

Attributes attributes_of(const OpDef& op, const std::string& text) {
  Attributes attributes;
  if (text.empty()) return attributes;
  const Attributes standard = op.canonical({});
  const nlohmann::json given = parse_json_object(text, "attributes");
  for (const auto& [name, json] : given.items()) {
    const AttrValue* value = standard.find(name);
    attributes.set(name, value ? std::visit(AttributeReader{name, json}, *value) : AttrValue(json.dump()));
  }
  return attributes;
}

Json attribute_json(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, DType>)
          return name_of(v);
        else if constexpr (std::is_same_v<T, Shape>)
          return v.to_string();
        else
          return v;
      },
      value);
}

const OpDef& op_named(const std::string& name) {
  const OpDef* op = find_op(name);
  if (!op) fail("there is no op '{}': docs/ops.md lists all; load the plugin of an op that is in one", name);
  return *op;
}

int32_t added(gn_graph& graph, Value value) {
  graph.values.push_back(value);
  return static_cast<int32_t>(graph.values.size() - 1);
}

Value value_of(const gn_graph& graph, int32_t number) {
  if (number < 0 || static_cast<size_t>(number) >= graph.values.size())
    throw BadArgument(fmt::format("there is no value {}: the graph has {}", number, graph.values.size()));
  return graph.values[static_cast<size_t>(number)];
}

// Returns the state, which `initial` makes if it is given.
Parameter state_of(Model& model, const std::string& name, const gn_tensor* initial, bool trains) {
  if (!initial) {
    const int32_t found = model.find_state(name);
    if (found < 0) fail_no_state(model, name);
    return {&model, found};
  }
  // The model keeps a copy: the caller's bytes may be a view.
  const Tensor& given = initial->host();
  return {&model, model.add_state({.name = name,
                                   .type = given.type(),
                                   .role = trains ? StateRole::kParameter : StateRole::kBuffer,
                                   .trainable = trains,
                                   .initial = Tensor::copy_of(given.type(), given.data())})};
}

// Calls body(graph, output); `value` is -1 if it fails.
template <class Body>
gn_error* with_value(const char* function, gn_graph* graph, int32_t* value, const Body& body) {
  return guarded(function, [&] {
    required(value, "value") = -1;
    gn_graph& g = required(graph, "graph");
    const Value made = body(g);
    *value = added(g, made);
  });
}

}  // namespace
}  // namespace genesis::c

using namespace genesis;
using namespace genesis::c;

extern "C" {

gn_error* gn_graph_create(gn_model* model, const char* entry, int32_t trains, gn_graph** out) {
  const auto body = [&] {
    gn_graph*& result = output(out);
    const auto& owner = required(model, "model").model;
    const Mode mode = trains ? Mode::kTrain : Mode::kEval;
    result = new gn_graph{owner, GraphBuilder(*owner, text_of(entry, "entry"), mode), {}};
  };
  return guarded("gn_graph_create", body, entry);
}

gn_error* gn_graph_input(gn_graph* graph, const char* name, int32_t dtype, const char* shape,
                         int32_t* value) {
  return with_value("gn_graph_input", graph, value, [&](gn_graph& g) {
    return g.builder.input(text_of(name, "name"), dtype_of_number(dtype),
                           Shape::parse(text_of(shape, "shape")));
  });
}

gn_error* gn_graph_constant(gn_graph* graph, const char* name, const gn_tensor* tensor, int32_t* value) {
  return with_value("gn_graph_constant", graph, value, [&](gn_graph& g) {
    const Tensor& given = required(tensor, "tensor").host();
    return g.builder.constant(text_of(name, "name"), Tensor::copy_of(given.type(), given.data()));
  });
}

gn_error* gn_graph_state(gn_graph* graph, const char* name, const gn_tensor* initial, int32_t trains,
                         int32_t* value) {
  return with_value("gn_graph_state", graph, value, [&](gn_graph& g) {
    return g.builder.value(state_of(*g.model, text_of(name, "name"), initial, trains != 0));
  });
}

gn_error* gn_graph_op(gn_graph* graph, const char* op, const char* attributes, const int32_t* inputs,
                      size_t count, int32_t* results, size_t capacity, size_t* made) {
  return guarded("gn_graph_op", [&] {
    required(made, "made") = 0;
    gn_graph& g = required(graph, "graph");
    const OpDef& def = op_named(text_of(op, "op"));
    if (count > 0) required(inputs, "inputs");
    if (capacity > 0) required(results, "results");
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) values.push_back(value_of(g, inputs[i]));
    const Attributes chosen = attributes_of(def, text_or_empty(attributes));
    const std::vector<Value> outputs = g.builder.graph().add_node(def, chosen, values);
    for (const Value& value : outputs) {
      const int32_t number = added(g, value);
      if (*made < capacity) results[*made] = number;
      ++*made;
    }
  });
}

gn_error* gn_graph_output(gn_graph* graph, const char* name, int32_t value) {
  return guarded("gn_graph_output", [&] {
    gn_graph& g = required(graph, "graph");
    g.builder.output(text_of(name, "name"), value_of(g, value));
  });
}

gn_error* gn_graph_update(gn_graph* graph, const char* state, int32_t value) {
  return guarded("gn_graph_update", [&] {
    gn_graph& g = required(graph, "graph");
    g.builder.update(state_of(*g.model, text_of(state, "state"), nullptr, false), value_of(g, value));
  });
}

void gn_graph_free(gn_graph* graph) { delete graph; }

gn_error* gn_load_plugin(const char* path) {
  return guarded("gn_load_plugin", [&] { load_plugin(text_of(path, "path")); });
}

gn_error* gn_ops_describe(char** json) {
  return guarded("gn_ops_describe", [&] {
    char*& result = output(json, "json");
    Json ops = Json::array();
    for (const OpDef* op : all_ops()) {
      Json attributes = Json::object();
      for (const auto& [name, value] : op->canonical({})) attributes[name] = attribute_json(value);
      ops.push_back({{"name", op->name()},
                     {"doc", op->info.doc},
                     {"inputs", {op->info.inputs.min, op->info.inputs.max}},
                     {"attributes", attributes}});
    }
    result = new_text(ops.dump());
  });
}

}  // extern "C"
