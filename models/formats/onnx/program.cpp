#include "models/formats/onnx/program.h"

#include <algorithm>

#include "models/formats/bounded_sizes.h"
#include "models/formats/onnx/call.h"
#include "schema/core/parse_number.h"

namespace genesis::models::onnx {
namespace {

constexpr size_t kMaxVariants = 16;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Returns the first `count` elements along an axis.
Tensor first_along(const Tensor& tensor, int64_t axis, int64_t count) {
  std::vector<int64_t> sizes = tensor.shape().sizes();
  auto outer = static_cast<int64_t>(size_of(tensor.dtype()));
  for (size_t i = static_cast<size_t>(axis) + 1; i < sizes.size(); ++i) outer *= sizes[i];
  const int64_t from = sizes[static_cast<size_t>(axis)] * outer, to = count * outer;
  sizes[static_cast<size_t>(axis)] = count;
  std::byte* bytes = nullptr;
  Tensor result = Tensor::uninitialized({tensor.dtype(), Shape::of(sizes)}, &bytes);
  const auto* source = reinterpret_cast<const std::byte*>(tensor.data());
  for (int64_t i = 0; from > 0 && to > 0 && i * from < tensor.bytes(); ++i)
    std::copy_n(source + i * from, to, bytes + i * to);
  return result;
}

// Moves the values that the import asks for into the options. Returns false if none of them is given and small.
bool give_values(const NeedsValue& problem, const NamedTensors& given, ImportOptions& options) {
  bool is_new = false;
  for (const std::string& name : problem.sources)
    if (const auto found = given.find(name);
        found != given.end() && found->second.numel() <= kMaxDecidingElements)
      is_new |= options.values.emplace(name, found->second).second;
  return is_new;
}

// Cuts outputs whose number of rows depends on data to those that are meant.
NamedTensors without_padding(NamedTensors results, const std::map<std::string, std::string>& metadata) {
  for (auto& [name, tensor] : results) {
    const auto axis = metadata.find(length_axis_key(name));
    if (axis == metadata.end()) continue;
    const int64_t at = parse_number<int64_t>(axis->second).value_or(0),
                  rows = results.at(length_name(name)).item<int64_t>();
    tensor = first_along(tensor, at, rows);
  }
  for (const auto& [key, axis] : metadata)
    if (key.starts_with(length_axis_key("")))
      results.erase(length_name(key.substr(length_axis_key("").size())));
  return results;
}

}  // namespace

std::unique_ptr<Model> import_for_values(const OnnxFile& file, const std::filesystem::path& folder,
                                         const NamedTensors& given, ImportOptions& options,
                                         MappedFiles* files) {
  for (;;) try {
      return import_file(file, folder, files, options);
    } catch (const NeedsValue& problem) {
      if (!give_values(problem, given, options)) throw;
    }
}

Program::Program(OnnxFile file, std::filesystem::path folder, ImportOptions options, SessionOptions session)
    : file_(std::move(file)),
      folder_(std::move(folder)),
      options_(std::move(options)),
      session_options_(std::move(session)),
      variants_(kMaxVariants) {
  for (const auto& [name, value] : options_.values) deciding_.insert(name);
}

Program::Program(const std::filesystem::path& path, SessionOptions session)
    : Program(read_onnx(path), folder_of(path), {}, std::move(session)) {}

Program::Key Program::key_of(const NamedTensors& inputs) const {
  Key key;
  if (fixes_shapes_)
    for (const auto& [name, tensor] : inputs) key[name] = tensor.type().to_string();
  for (const std::string& name : deciding_) {
    const auto given = inputs.find(name);
    if (given == inputs.end()) continue;  // fixed by the options, or the import says that it is missing
    const Tensor& value = given->second;
    key[name] = value.type().to_string() +
                std::string(reinterpret_cast<const char*>(value.data()), static_cast<size_t>(value.bytes()));
  }
  return key;
}

ImportOptions Program::options_for(const NamedTensors& inputs) const {
  ImportOptions options = options_;
  for (const auto& [name, tensor] : inputs) {
    if (deciding_.contains(name)) options.values[name] = tensor;
    if (fixes_shapes_) options.shapes.emplace(name, tensor.shape());
  }
  return options;
}

std::unique_ptr<Model> Program::import_for(const NamedTensors& inputs, ImportOptions& options,
                                           MappedFiles& files) {
  try {
    options = options_for(inputs);
    return import_for_values(file_, folder_, inputs, options, &files);
  } catch (const NeedsValue&) {
    throw;
  } catch (const Error&) {
    if (fixes_shapes_) throw;
  }
  fixes_shapes_ = true;
  options = options_for(inputs);
  return import_for_values(file_, folder_, inputs, options, &files);
}

std::shared_ptr<Program::Variant> Program::variant_for(const NamedTensors& inputs) {
  if (auto known = variants_.find(key_of(inputs))) return known;
  ImportOptions options;
  MappedFiles files;
  std::shared_ptr<const Model> model = import_for(inputs, options, files);
  std::set<std::string> constants;
  for (const auto& [name, value] : options.values) constants.insert(name);
  deciding_.insert(constants.begin(), constants.end());
  auto made = std::make_shared<Variant>(
      Variant{std::move(constants), std::move(files), model->metadata, Session(model, session_options_)});
  variants_.add(key_of(inputs), made);
  return made;
}

NamedTensors Program::run(const NamedTensors& inputs) {
  const auto variant = variant_for(inputs);
  NamedTensors rest;
  for (const auto& [name, tensor] : inputs)
    if (!variant->constants.contains(name)) rest.emplace(name, tensor);
  return without_padding(variant->session.run("forward", rest), variant->metadata);
}

}  // namespace genesis::models::onnx
