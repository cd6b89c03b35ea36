#include "models/formats/pt2/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "builder/graph_builder.h"
#include "models/formats/pt2/archive.h"
#include "models/formats/pt2/call.h"
#include "models/formats/pt2/operators.h"
#include "models/formats/pt2/output_names.h"
#include "models/formats/pt2/sharing.h"
#include "models/formats/pt2/size_expression.h"
#include "schema/core/error.h"
#include "schema/file/io/file_ending.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::pt2 {
namespace {

using nlohmann::json;

// "aten.add_.Tensor" writes its result over its first argument; returns the name without the underscore, or "".
std::string without_in_place(const std::string& target) {
  const size_t dot = target.rfind('.');
  if (dot == std::string::npos || dot == 0 || target[dot - 1] != '_' || target[dot - 2] == '_') return "";
  return target.substr(0, dot - 1) + target.substr(dot);
}

void check_operators_are_known(const json& nodes) {
  std::map<std::string, int> unknown;
  for (const json& node : nodes) {
    const auto target = node.at("target").get<std::string>();
    if (!find_operator(target) && !find_operator(without_in_place(target))) ++unknown[target];
  }
  if (unknown.empty()) return;
  std::vector<std::string> lines;
  for (const auto& [target, count] : unknown) lines.push_back(fmt::format("{} ({}x)", target, count));
  fail(
      "the program calls operators that are not read: {}; `program.run_decompositions()` before "
      "torch.export.save() may replace "
      "them by others",
      fmt::join(lines, ", "));
}

// Returns the path of the module that a call is in: the second field of the last entry of "key,path,type;key,path,type".
std::string module_of(const json& node) {
  const json& metadata = node.at("metadata");
  if (!metadata.contains("nn_module_stack")) return "";
  const auto stack = metadata.at("nn_module_stack").get<std::string>();
  const std::string last = stack.substr(stack.rfind(';') + 1);
  const size_t begin = last.find(','), end = last.find(',', begin + 1);
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : last.substr(begin + 1, end - begin - 1);
}

class Importer {
 public:
  explicit Importer(const std::filesystem::path& path)
      : archive_(path),
        program_(archive_.program().at("graph_module")),
        graph_(program_.at("graph")),
        model_(std::make_unique<Model>()),
        sharing_(graph_, environment_) {}

  std::unique_ptr<Model> import() {
    check_operators_are_known(graph_.at("nodes"));
    GraphBuilder g(*model_, "forward");
    name_symbols();
    for (const json& spec : program_.at("signature").at("input_specs")) add_input(g, spec);
    for (const json& node : graph_.at("nodes")) add_call(g, node);
    add_outputs(g);
    model_->metadata["architecture"] = "exported";
    model_->metadata["torch_version"] = archive_.program().value("torch_version", "");
    return std::move(model_);
  }
  const std::shared_ptr<const MappedFile>& file() const { return archive_.file(); }

 private:
  const json& meta_of(const std::string& value) const {
    const json& values = graph_.at("tensor_values");
    if (!values.contains(value)) fail("it says nothing about the value '{}'", value);
    return values.at(value);
  }

  // Calls a symbol after the first axis of an input that it is the size of.
  void name_symbols() {
    for (const json& spec : program_.at("signature").at("input_specs")) {
      if (!spec.contains("user_input") || !spec.at("user_input").at("arg").contains("as_tensor")) continue;
      const auto name = spec.at("user_input").at("arg").at("as_tensor").at("name").get<std::string>();
      const json& sizes = meta_of(name).at("sizes");
      for (size_t axis = 0; axis < sizes.size(); ++axis) {
        if (!sizes[axis].contains("as_expr")) continue;
        const auto size = parse_size(sizes[axis].at("as_expr").at("expr_str").get<std::string>(), {});
        std::vector<std::string> symbols;
        if (size) size->collect_symbols(symbols);
        if (symbols.size() == 1 && *size == Dim::symbol(symbols[0]))
          environment_.symbols.emplace(symbols[0], fmt::format("{}_dim{}", name, axis));
      }
    }
  }

  // Returns nothing for a size that is no polynomial.
  std::optional<Dim> size_of(const json& size) const {
    if (size.contains("as_int")) return Dim(size.at("as_int").get<int64_t>());
    return parse_size(size.at("as_expr").at("expr_str").get<std::string>(), environment_.symbols);
  }

  TensorType type_of(const std::string& value) const {
    const json& meta = meta_of(value);
    TensorType type{dtype_of(meta.at("dtype").get<int64_t>()), {}};
    for (const json& size : meta.at("sizes")) {
      const auto dim = size_of(size);
      if (!dim)
        fail("the size {} of '{}' is no polynomial of sizes of inputs",
             size.at("as_expr").at("expr_str").dump(), value);
      type.shape.push_back(*dim);
    }
    return type;
  }

  void add_input(GraphBuilder& g, const json& spec) {
    if (spec.contains("parameter"))
      return add_state(g, spec.at("parameter"), "parameter_name", StateRole::kParameter);
    if (spec.contains("buffer")) return add_state(g, spec.at("buffer"), "buffer_name", StateRole::kBuffer);
    if (spec.contains("tensor_constant")) {
      const json& constant = spec.at("tensor_constant");
      const auto name = constant.at("tensor_constant_name").get<std::string>();
      environment_.tensors[constant.at("arg").at("name").get<std::string>()] =
          g.constant(name, archive_.tensor(name));
      return;
    }
    if (!spec.contains("user_input")) fail("an input of the kind '{}' is not read", spec.begin().key());
    const json& arg = spec.at("user_input").at("arg");
    if (arg.contains("as_none")) return;
    if (!arg.contains("as_tensor")) fail("an input that is no tensor is not read: {}", arg.dump());
    const auto name = arg.at("as_tensor").at("name").get<std::string>();
    const TensorType type = type_of(name);
    environment_.tensors[name] = g.input(name, type.dtype, type.shape);
    inputs_.insert(name);
  }

  // Parameters that share their bytes are one state.
  void add_state(GraphBuilder& g, const json& spec, const char* key, StateRole role) {
    const auto value = spec.at("arg").at("name").get<std::string>(), name = spec.at(key).get<std::string>();
    const auto [known, is_new] = state_of_bytes_.emplace(archive_.key_of(name), -1);
    if (is_new) {
      const Tensor tensor = archive_.tensor(name);
      known->second = model_->add_state({.name = name,
                                         .type = tensor.type(),
                                         .role = role,
                                         .trainable = role == StateRole::kParameter &&
                                                      meta_of(value).value("requires_grad", true) &&
                                                      is_float(tensor.type().dtype),
                                         .initial = tensor});
    }
    environment_.tensors[value] = g.graph().state(known->second);
    states_[value] = known->second;
  }

  void add_call(GraphBuilder& g, const json& node) {
    const auto target = node.at("target").get<std::string>();
    const std::string module = module_of(node);
    with_context(
        [&] {
          g.graph().push_layer_scope(module);
          Call call(g, node, environment_);
          const std::string plain = find_operator(target) ? "" : without_in_place(target);
          const Operator* operation = find_operator(plain.empty() ? target : plain);
          Results results = operation->translate(call);
          call.check_all_read();
          if (!plain.empty()) cast_to_written(node, results);
          keep(node, results);
          if (!plain.empty())
            overwrite(g, node, makes_views(plain));
          else
            sharing_.note_call(node);
          g.graph().pop_scope();
        },
        [&] {
          return fmt::format("in the call '{}' of {}{}", node.value("name", "?"), target,
                             module.empty() ? "" : " in the module '" + module + "'");
        });
  }

  // Gives the results of a call their names, after checking that they are what the file says.
  void keep(const json& node, const Results& results) {
    std::vector<std::string> names;
    for (const json& output : node.at("outputs")) {
      if (output.contains("as_tensor"))
        names.push_back(output.at("as_tensor").at("name").get<std::string>());
      else if (output.contains("as_tensors"))
        for (const json& item : output.at("as_tensors")) names.push_back(item.at("name").get<std::string>());
      else if (output.contains("as_sym_int"))
        names.push_back(output.at("as_sym_int").at("as_name").get<std::string>());
      else if (output.contains("as_none") || output.contains("as_sym_bool"))
        names.emplace_back();
      else
        fail("a result of the kind {} is not read", output.dump().substr(0, 60));
    }
    if (const Dim* size = std::get_if<Dim>(&results)) {
      if (names.size() != 1) fail("it has {} results instead of one size", names.size());
      environment_.sizes[names[0]] = *size;
      return;
    }
    const auto& values = std::get<std::vector<Value>>(results);
    const auto is_tensor = [](const json& output) { return output.begin().key().starts_with("as_tensor"); };
    if (values.empty() && std::ranges::none_of(node.at("outputs"), is_tensor)) return;  // only checks read it
    if (names.size() > values.size())
      fail("it has {} results in the file, and {} here", names.size(), values.size());
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty()) continue;
      if (is_read_later(names[i])) check_type(names[i], values[i]);
      environment_.tensors[names[i]] = values[i];
    }
  }

  // Results that nobody reads, such as saved statistics, may be anything.
  bool is_read_later(const std::string& name) {
    if (read_.empty())
      for (const json& node : graph_.at("nodes"))
        for (const json& input : node.at("inputs")) collect_names(input.at("arg"));
    if (outputs_.empty())
      for (const json& output : graph_.at("outputs"))
        if (output.contains("as_tensor"))
          outputs_.insert(output.at("as_tensor").at("name").get<std::string>());
    return read_.contains(name) || outputs_.contains(name);
  }
  void collect_names(const json& arg) {
    if (arg.contains("as_tensor")) read_.insert(arg.at("as_tensor").at("name").get<std::string>());
    for (const char* kind : {"as_tensors", "as_optional_tensors"}) {
      if (!arg.contains(kind)) continue;
      for (const json& item : arg.at(kind)) {
        const json& tensor = item.contains("as_tensor") ? item.at("as_tensor") : item;
        if (tensor.contains("name")) read_.insert(tensor.at("name").get<std::string>());
      }
    }
  }

  void check_type(const std::string& name, const Value& value) const {
    const json& meta = meta_of(name);
    const DType dtype = dtype_of(meta.at("dtype").get<int64_t>());
    const json& sizes = meta.at("sizes");
    bool fits = value.dtype() == dtype && static_cast<size_t>(value.rank()) == sizes.size();
    for (size_t axis = 0; fits && axis < sizes.size(); ++axis) {
      const auto size = size_of(sizes[axis]);
      fits = !size || *size == value.dim(static_cast<int64_t>(axis));
    }
    if (!fits)
      fail("its result '{}' is {} here, and the file says {} {}", name, value.type().to_string(),
           name_of(dtype), sizes.dump());
  }

  static std::string written_by(const json& node) {
    return node.at("inputs").at(0).at("arg").at("as_tensor").at("name").get<std::string>();
  }

  // A tensor that is written in place keeps its dtype: f16.add_(f32) is an f16.
  void cast_to_written(const json& node, Results& results) const {
    auto* values = std::get_if<std::vector<Value>>(&results);
    if (!values || values->empty()) fail("it writes over '{}' and has no result", written_by(node));
    (*values)[0] = cast((*values)[0], value_named(written_by(node)).dtype());
  }

  // The first argument of an operation in place now has the result as its value.
  void overwrite(GraphBuilder& g, const json& node, bool changes_shape) {
    const std::string written = written_by(node);
    const auto result = node.at("outputs").at(0).at("as_tensor").at("name").get<std::string>();
    // A dropout of an evaluation, for example, writes what is there.
    if (environment_.tensors.at(result).is(environment_.tensors.at(written)))
      return sharing_.add_alias(written, result);
    const std::string owner = sharing_.owner(written);
    if (inputs_.contains(owner)) fail("it writes over the input '{}', which is not read", owner);
    const auto number = static_cast<size_t>(&node - &graph_.at("nodes").at(0));
    if (changes_shape) {
      if (states_.contains(owner)) fail("it changes the shape of the state '{}', which is not read", owner);
      sharing_.check_is_alone(written, number);
    }
    sharing_.write(g, written, result, number);
    if (states_.contains(owner)) written_states_.insert(owner);
  }

  void add_outputs(GraphBuilder& g) {
    std::vector<std::string> user_outputs;
    const json &specs = program_.at("signature").at("output_specs"), &values = graph_.at("outputs");
    for (size_t i = 0; i < specs.size(); ++i) {
      const json& spec = specs[i];
      if (spec.contains("buffer_mutation")) {
        const json& mutation = spec.at("buffer_mutation");
        const int32_t state = model_->find_state(mutation.at("buffer_name").get<std::string>());
        if (state < 0) fail("it writes the buffer {}, which is none", mutation.at("buffer_name").dump());
        g.graph().add_update(state, value_named(mutation.at("arg").at("name").get<std::string>()));
      } else if (spec.contains("user_output")) {
        const json& value = values.at(i);
        if (!value.contains("as_tensor"))
          fail("an output that is no tensor is not read: {}", value.dump().substr(0, 80));
        user_outputs.push_back(value.at("as_tensor").at("name").get<std::string>());
      } else {
        fail("an output of the kind '{}' is not read", spec.begin().key());
      }
    }
    const std::vector<std::string> names = output_names(archive_.program(), user_outputs.size());
    for (size_t i = 0; i < user_outputs.size(); ++i) g.output(names[i], value_named(user_outputs[i]));
    for (const std::string& state : written_states_)
      g.graph().add_update(states_.at(state), value_named(state));
  }
  Value value_named(const std::string& name) const {
    const auto value = environment_.tensors.find(name);
    if (value == environment_.tensors.end()) fail("it returns '{}', which nothing makes", name);
    return value->second;
  }

  Archive archive_;
  const json &program_, &graph_;
  std::unique_ptr<Model> model_;
  Environment environment_;
  std::map<std::string, int32_t> state_of_bytes_, states_;  // by archive key; by value
  std::set<std::string> inputs_, read_, outputs_, written_states_;
  Sharing sharing_;
};

}  // namespace

bool is_pt2_file(const std::filesystem::path& path) { return file_ending(path) == ".pt2"; }

std::unique_ptr<Model> import_model(const std::filesystem::path& path, MappedFiles* files) try {
  return with_context(
      [&] {
        Importer importer(path);
        auto model = importer.import();
        if (files) files->push_back(importer.file());
        return model;
      },
      [&] { return fmt::format("in the exported program '{}'", path.string()); });
} catch (const json::exception& problem) {
  fail("'{}' is damaged, or written by another version of PyTorch: {}", path.string(), problem.what());
}

}  // namespace genesis::models::pt2
