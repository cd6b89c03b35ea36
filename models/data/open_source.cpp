// Chooses a reader by the file names.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/corpus/documents.h"
#include "models/corpus/text_files.h"
#include "models/data/sources.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"

namespace genesis::data {
namespace fs = std::filesystem;
namespace {

// Splits "name=path" or "path" into name and path.
std::pair<std::string, fs::path> split_name(const std::string& file) {
  const size_t equals = file.find('=');
  if (equals == std::string::npos || fs::exists(file)) return {"", file};
  return {file.substr(0, equals), file.substr(equals + 1)};
}

// Reads lines of JSON objects: either all have a string "text", which are joined by blank lines, or all have the same numeric
// fields.
class JsonLines {
 public:
  void read(const fs::path& path) {
    std::istringstream in(read_text(path));
    int64_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      with_context([&] { add(line); }, [&] { return fmt::format("at {}:{}", path.string(), number); });
    }
    if (in.bad()) fail("cannot read {} beyond line {}: too little memory", path.string(), number);
  }

  bool is_text() const { return !text_.empty(); }
  std::string text() const { return text_; }
  NamedTensors arrays(const std::map<std::string, DType>& dtypes) const {
    NamedTensors arrays;
    for (const auto& [name, column] : columns_) {
      const auto wanted = dtypes.find(name);
      const DType own = column.integers ? DType::i64 : DType::f32;
      arrays.emplace(name, with_context(
                               [&, &column = column] {
                                 return column.tensor(rows_, wanted == dtypes.end() ? own : wanted->second);
                               },
                               [&name = name] { return fmt::format("in field '{}'", name); }));
    }
    return arrays;
  }

 private:
  struct Column {
    std::vector<int64_t> shape;  // shape of one row
    std::vector<double> values;
    std::vector<int64_t> exact;  // the same as integers, as long as all are: a double holds only 53 bits
    bool integers = true;
    // Numbers with a fraction never become integers: the tensor stays f32, and the entry point refuses it by name.
    Tensor tensor(int64_t rows, DType wanted) const {
      std::vector<int64_t> sizes = shape;
      sizes.insert(sizes.begin(), rows);
      const DType dtype = is_float(wanted) || integers ? wanted : DType::f32;
      std::byte* data;
      Tensor tensor = Tensor::uninitialized({dtype, Shape::of(sizes)}, &data);
      dispatch(dtype, [&]<class T>(TypeTag<T>) {
        for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<T*>(data)[i] = convert<T>(i);
      });
      return tensor;
    }
    template <class T>
    T convert(size_t i) const {
      if constexpr (std::is_integral_v<T>) {
        const auto value = static_cast<T>(exact[i]);
        if (static_cast<int64_t>(value) != exact[i]) fail_to_hold<T>(exact[i]);
        return value;
      } else {
        using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
        const auto value = static_cast<T>(static_cast<Wide>(values[i]));
        if (!std::isfinite(static_cast<double>(value))) fail_to_hold<T>(values[i]);
        return value;
      }
    }
    template <class T>
    [[noreturn]] static void fail_to_hold(auto number) {
      fail("{} is in a field that is {}, which cannot hold it", number, name_of(dtype_of<T>()));
    }
  };

  void add(const std::string& line) {
    const auto object = parse_json_object(line, "this line");
    if (object.contains("text")) return add_text(object["text"]);
    if (object.contains("conversations") && object["conversations"].is_array() &&
        !object["conversations"].empty() && object["conversations"][0].is_object())
      fail("{}", corpus::kShareGptRow);
    if (is_text()) fail("earlier lines have a field 'text', this one has none");
    for (const auto& [name, value] : object.items()) add_value(name, value);
    ++rows_;
    for (const auto& [name, column] : columns_)
      if (!object.contains(name)) fail("field '{}' is missing", name);
  }

  void add_text(const nlohmann::json& text) {
    if (!text.is_string()) fail("field 'text' is not a string");
    if (rows_ > 0) fail("earlier lines have no field 'text'");
    text_ += text.get<std::string>() + "\n\n";
  }

  void add_value(const std::string& name, const nlohmann::json& value) {
    if (rows_ > 0 && !columns_.contains(name)) fail("field '{}' is not in the earlier lines", name);
    Column& column = columns_[name];
    std::vector<int64_t> shape;
    append(name, value, 0, shape, column, column.values.size());
    if (rows_ == 0) column.shape = shape;
    if (column.shape != shape) fail("field '{}' has another shape than in the first line", name);
  }

  // A hint for the error message about a field that holds text or objects.
  static constexpr const char* kText =
      "; text is learnt of lines {\"text\": ...}, conversations of {\"messages\": [...]}";

  static void append_number(const std::string& name, const nlohmann::json& value, Column& column) {
    column.integers = column.integers && value.is_number_integer();
    column.values.push_back(value.get<double>());
    if (!column.integers) return;
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
      fail("field '{}' is {}, which does not fit in 64 bits with a sign", name, value.dump());
    column.exact.push_back(value.get<int64_t>());
  }

  // Appends `value` to the column. `first` is the number of values that the column had before this row. The first number of a row
  // determines its depth.
  static void append(const std::string& name, const nlohmann::json& value, size_t depth,
                     std::vector<int64_t>& shape, Column& column, size_t first) {
    if (value.is_number()) {
      if (depth != shape.size()) fail("field '{}' is a ragged list", name);
      return append_number(name, value, column);
    }
    if (!value.is_array() || depth >= kMaxRank - 1)
      fail("field '{}' is not a number or a list of numbers{}", name,
           value.is_string() || value.is_object() ? kText : "");
    const auto size = static_cast<int64_t>(value.size());
    if (shape.size() == depth && column.values.size() == first) shape.push_back(size);
    if (shape.size() == depth || shape[depth] != size) fail("field '{}' is a ragged list", name);
    for (const auto& item : value) append(name, item, depth + 1, shape, column, first);
  }

  std::string text_;
  std::map<std::string, Column> columns_;
  int64_t rows_ = 0;
};

void add_arrays(NamedTensors& all, const NamedTensors& more, const fs::path& path) {
  for (const auto& [name, tensor] : more)
    if (!all.emplace(name, tensor).second) fail("array '{}' of {} was given already", name, path.string());
}

}  // namespace

std::string read_file(const fs::path& path) { return read_whole_file(path); }

std::string read_text(const fs::path& path) {
  std::string text = read_whole_file(path);
  corpus::check_is_text(path, text);
  return text;
}

std::unique_ptr<BatchSource> open_source(const std::vector<std::string>& files,
                                         const SourceOptions& options) {
  if (files.empty()) fail("no data was given: name a file with --data");
  std::string text;
  NamedTensors arrays;
  for (const std::string& file : files) {
    const auto [name, path] = split_name(file);
    const std::string kind = file_ending(path);
    if (kind == ".npy") {
      if (name.empty()) fail("which input is {} for? write --data NAME={}", path.string(), path.string());
      add_arrays(arrays, {{name, read_npy(path)}}, path);
    } else if (kind == ".safetensors") {
      add_arrays(arrays, read_safetensors(path).tensors, path);
    } else if (is_json_lines(path)) {
      JsonLines lines;
      lines.read(path);
      if (lines.is_text())
        text += lines.text();
      else
        add_arrays(arrays, lines.arrays(options.dtypes), path);
    } else {
      text += read_text(path);
    }
  }
  if (!text.empty() && !arrays.empty()) fail("the data files mix text and arrays: give one kind");
  return arrays.empty() ? text_source(std::move(text), options) : array_source(std::move(arrays), options);
}

}  // namespace genesis::data
