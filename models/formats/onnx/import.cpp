#include "models/formats/onnx/import.h"

#include <algorithm>

#include "models/formats/bounded_sizes.h"
#include "models/formats/onnx/graph_runner.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/core/open_size.h"
#include "schema/file/io/file_ending.h"

namespace genesis::models::onnx {
namespace {

constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;

// Returns a name for a symbolic size: letters, digits and '_', not beginning with a digit, and none of those of sizes that depend on data.
std::string symbol_name(const std::string& wanted) {
  std::string name = wanted;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  if (!name.empty() && !bounded_symbol(Dim::symbol(name)).empty()) return "size" + name;
  return std::isdigit(static_cast<unsigned char>(name[0])) ? "_" + name : name;
}

Shape input_shape(const std::string& name, const OnnxType& type, const ImportOptions& options) {
  const auto given = options.shapes.find(name);
  if (given != options.shapes.end()) return given->second;
  if (!type.has_shape) fail("the input '{}' has no shape in the file: give one", name);
  Shape shape;
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    const std::string& size = type.shape[axis];
    const auto bound = options.sizes.find(size);
    if (bound != options.sizes.end())
      shape.push_back(bound->second);
    else if (!size.empty() && std::ranges::all_of(size, [](unsigned char c) { return std::isdigit(c); }))
      shape.push_back(Dim::parse(size));
    else
      shape.push_back(Dim::symbol(symbol_name(size == "?" ? fmt::format("{}_dim{}", name, axis) : size)));
  }
  return shape;
}

class Importer {
 public:
  Importer(const OnnxFile& file, const std::filesystem::path& folder, const ImportOptions& options)
      : file_(file), options_(options), external_(folder), model_(std::make_unique<Model>()) {}

  std::unique_ptr<Model> import() {
    check_versions();
    GraphBuilder g(*model_, "forward");
    environment_.g = &g;
    environment_.external = &external_;
    environment_.owner = file_.file;
    environment_.most_steps = options_.steps;
    GraphRunner runner(file_, environment_);
    runner.check_operators_are_known();
    std::vector<ItemPtr> inputs;
    for (const std::string& name : file_.graph.inputs) inputs.push_back(input(g, name));
    const std::vector<ItemPtr> outputs = run(runner, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) add_output(g, file_.graph.outputs[i], *outputs[i]);
    settle_sizes();
    model_->metadata["architecture"] = "onnx";
    for (const auto& [key, text] : file_.metadata) model_->metadata.emplace("onnx." + key, text);
    return std::move(model_);
  }
  MappedFiles files() const {
    MappedFiles all = external_.files();
    if (file_.file) all.push_back(file_.file);
    return all;
  }

 private:
  void check_versions() const {
    const auto standard = file_.opsets.find("ai.onnx");
    if (standard == file_.opsets.end()) return;  // each node names its own domain
    if (standard->second < kOldestOpset || standard->second > kNewestOpset)
      fail("it has the operators of version {}: expected {} to {}", standard->second, kOldestOpset,
           kNewestOpset);
  }

  bool is_initializer(const std::string& name) const {
    return std::ranges::any_of(file_.graph.tensors, [&](const OnnxTensor& t) { return t.name == name; });
  }

  static std::vector<ItemPtr> run(GraphRunner& runner, const std::vector<ItemPtr>& inputs) {
    try {
      return runner.run_main(inputs);
    } catch (OpenSize& error) {
      error.add_context(
          "the sizes of the file are open: if the program needs known ones, or multiples of a number, give "
          "them as "
          "in --set NAME=640 or NAME=32*h");
      throw;
    }
  }

  // Returns nothing for an input that is an initializer.
  ItemPtr input(GraphBuilder& g, const std::string& name) {
    if (is_initializer(name)) return nullptr;
    if (options_.absent.contains(name)) {
      auto none = std::make_shared<Item>();
      none->kind = Item::Kind::kNone;
      return none;
    }
    const auto known = file_.graph.types.find(name);
    const OnnxType* type = known == file_.graph.types.end() ? nullptr : &known->second;
    while (type && type->dtype == "optional" && type->item) type = type->item.get();
    if (!type) fail("the input '{}' has no type", name);
    if (type->dtype == "sequence") return input_sequence(g, name, *type);
    const auto element = static_cast<OnnxElement>(type->element);
    const auto dtype = onnx_storage(element);
    if (!dtype) fail("the input '{}' is of {}, which is not read", name, type->dtype);
    note_type(name, element, *dtype);
    return with_context([&] { return input_tensor(g, name, *type, element, *dtype); },
                        [&] { return fmt::format("in the input '{}'", name); });
  }

  ItemPtr input_tensor(GraphBuilder& g, const std::string& name, const OnnxType& type, OnnxElement element,
                       DType dtype) {
    const auto fixed = options_.values.find(name);
    if (fixed == options_.values.end())
      return item_of(g.input(name, dtype, input_shape(name, type, options_)), element);
    if (fixed->second.dtype() != dtype)
      fail("its given value is {}: expected {}", fixed->second.type().to_string(), name_of(dtype));
    auto item = std::make_shared<Item>();
    item->tensor = fixed->second;
    item->element = element;
    return item;
  }

  ItemPtr input_sequence(GraphBuilder& g, const std::string& name, const OnnxType& type) {
    const auto given = options_.sequences.find(name);
    if (given == options_.sequences.end())
      fail("the input '{}' is a sequence: give the types of its elements", name);
    std::vector<ItemPtr> items;
    const auto element = static_cast<OnnxElement>(type.item ? type.item->element : 0);
    for (size_t i = 0; i < given->second.size(); ++i)
      items.push_back(item_of(
          g.input(fmt::format("{}.{}", name, i), given->second[i].dtype, given->second[i].shape), element));
    return sequence_of(items);
  }

  // A node that needs the number of a size that depends on data needs the values of all inputs: a variant is made for each of them.
  void settle_sizes() {
    try {
      settle_bounded_sizes(*model_, "forward");
    } catch (const NeedsCount& problem) {
      std::vector<std::string> inputs;
      const Graph& graph = model_->entry("forward");
      for (const ValueId id : graph.inputs()) inputs.push_back(graph.value(id).name);
      throw NeedsValue(problem.what(), inputs);
    }
  }

  // Notes an element type that the DType does not say.
  void note_type(const std::string& name, OnnxElement element, DType dtype) {
    if (element != onnx_element_of(dtype))
      model_->metadata["onnx_type." + name] = onnx_element_type(static_cast<int64_t>(element)).dtype;
  }

  void add_output(GraphBuilder& g, const std::string& name, Item& item) {
    if (item.kind == Item::Kind::kNone) return;
    if (item.kind == Item::Kind::kSequence) {
      for (size_t i = 0; i < item.items.size(); ++i)
        add_output(g, fmt::format("{}.{}", name, i), *item.items[i]);
      return;
    }
    const Value value = value_of(environment_, item);
    note_type(name, item.element, value.dtype());
    g.output(name, value);
  }

  const OnnxFile& file_;
  const ImportOptions& options_;
  OnnxExternalFiles external_;
  std::unique_ptr<Model> model_;
  Environment environment_;
};

}  // namespace

std::unique_ptr<Model> signature_of(const OnnxFile& file, const ImportOptions& options) {
  auto model = std::make_unique<Model>();
  GraphBuilder g(*model, "forward");
  for (const std::string& name : file.graph.inputs) {
    const bool has_value =
        std::ranges::any_of(file.graph.tensors, [&](const auto& t) { return t.name == name; });
    const auto type = file.graph.types.find(name);
    if (has_value || type == file.graph.types.end()) continue;
    if (const auto dtype = onnx_storage(static_cast<OnnxElement>(type->second.element)))
      g.input(name, *dtype, input_shape(name, type->second, options));
  }
  return model;
}

bool is_onnx_file(const std::filesystem::path& path) { return file_ending(path) == ".onnx"; }

std::unique_ptr<Model> import_file(const OnnxFile& file, const std::filesystem::path& folder,
                                   MappedFiles* files, const ImportOptions& options) {
  Importer importer(file, folder, options);
  auto model = importer.import();
  if (files) {
    const MappedFiles used = importer.files();
    files->insert(files->end(), used.begin(), used.end());
  }
  return model;
}

std::unique_ptr<Model> import_model(const std::filesystem::path& path, MappedFiles* files,
                                    const ImportOptions& options) {
  const OnnxFile file = read_onnx(path);
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  return with_context([&] { return import_file(file, folder, files, options); },
                      [&] { return fmt::format("in the ONNX model '{}'", path.string()); });
}

}  // namespace genesis::models::onnx
