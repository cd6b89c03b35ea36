#include "models/formats/hugging_face/export.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "executor/state_dict.h"
#include "models/formats/hugging_face/attached_name.h"
#include "models/formats/hugging_face/conv1d.h"
#include "models/formats/hugging_face/export_config.h"
#include "models/formats/hugging_face/family_settings.h"
#include "models/formats/hugging_face/fused.h"
#include "models/formats/hugging_face/import.h"
#include "models/formats/hugging_face/sentence_modules.h"
#include "models/formats/hugging_face/stacked.h"
#include "passes/lora/lora.h"
#include "schema/core/type_limits.h"
#include "schema/file/attached_files.h"
#include "schema/file/io/atomic_folder.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/graph/state_storage.h"

namespace genesis::models::hugging_face {
namespace {

namespace fs = std::filesystem;

struct Weight {
  std::string name;
  TensorToWrite tensor;

  uint64_t bytes() const { return static_cast<uint64_t>(tensor.type.bytes()); }
};

// Returns true for files of a checkpoint, which an export may replace.
bool may_go(const fs::path& path) {
  const std::string name = path.string();
  static const std::vector<const char*> kNames = {
      "config.json",         "generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
      "chat_template.jinja", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "merges.txt"};
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         std::ranges::find(kNames, name) != kNames.end() || is_sentence_file(name);
}

// Makes the architecture that the metadata describe, without values. Refuses metadata that claim more layers than the model has
// states: making that many would take forever.
std::unique_ptr<Model> empty_model(const Model& model, const FamilySettings& made) {
  const std::string& name = made.family->layers_setting;
  if (const int64_t layers = made.settings.at(name); layers > static_cast<int64_t>(model.states().size()))
    fail("the model's metadata say {} {}, and it has {} states", name, layers, model.states().size());
  return make_uninitialized(made);
}

// Returns the differences between the model's states and those of its architecture.
std::vector<std::string> mismatched(const Model& model, const Model& expected) {
  std::vector<std::string> problems;
  for (const State& state : expected.states()) {
    if (!is_in_state_dict(state)) continue;
    const int32_t at = model.find_state(state.name);
    const TensorType type = at < 0 ? TensorType{} : model.state(at).type;
    if (at < 0)
      problems.push_back(state.name + " is missing");
    else if (!(type.shape == state.type.shape) || !is_float(type.dtype))
      problems.push_back(
          fmt::format("{} is {}, expected {}", state.name, type.to_string(), state.type.to_string()));
  }
  for (const State& state : model.states())
    if (is_in_state_dict(state) && !is_dense_state(state.name) && expected.find_state(state.name) < 0)
      problems.push_back(state.name + " is none of its states");
  return problems;
}

void check_is(const Model& model, const Model& expected, const std::string& name) {
  const std::vector<std::string> problems = mismatched(model, expected);
  if (!problems.empty())
    fail("the model is no {} any more, and transformers would not open it:\n  {}", name,
         fmt::join(problems, "\n  "));
}

Tensor value_of(const State& state, DType dtype, bool turned) {
  return with_context(
      [&] {
        const Tensor value = initial_value(state);
        const Tensor converted = value.to(dtype);
        check_f16_range(value, converted, "export as bf16 or f32");
        return turned ? transposed(converted) : converted;
      },
      [&] { return "in weight '" + state.name + "'"; });
}

// Returns a matrix that the model holds as several weights.
Weight joined_weight(const Model& model, const PartOfFused& fused, DType dtype) {
  int64_t rows = 0;
  std::vector<const State*> parts;
  for (const std::string& name : fused.parts) {
    parts.push_back(&model.state(model.find_state(name)));
    const Shape& own = parts.back()->type.shape;
    rows += own[rows_axis(own)].value();
  }
  const auto value = [parts, dtype] {
    std::vector<Tensor> values;
    for (const State* part : parts) values.push_back(value_of(*part, dtype, false));
    return joined_rows(values);
  };
  Shape shape = parts.front()->type.shape;
  shape[rows_axis(shape)] = rows;
  return {fused.whole, {{dtype, shape}, value}};
}

// Returns a tensor of experts that the model holds as several, the other way around.
Weight turned_weight(const Model& model, const Turned& turned, DType dtype) {
  std::vector<const State*> parts;
  for (const std::string& name : turned.parts) parts.push_back(&model.state(model.find_state(name)));
  const TensorType type{dtype, turned_type(parts.front()->type, std::ssize(parts)).shape};
  return {turned.stored, {type, [parts, dtype] {
                            std::vector<Tensor> values;
                            for (const State* part : parts) values.push_back(value_of(*part, dtype, false));
                            return turned_back(values);
                          }}};
}

// Adds the matrices of a stack. The stack is decoded once, when the first of them is written, and kept until all are.
void add_stacked(const State& state, const Stack& stack, DType dtype, std::vector<Weight>& weights) {
  struct Decoded {
    Tensor value;
    int64_t left;
  };
  const auto decoded = std::make_shared<Decoded>(Decoded{{}, std::ssize(stack.parts)});
  std::vector<int64_t> sizes = state.type.shape.sizes();
  sizes.erase(sizes.begin());
  for (int64_t i = 0; i < std::ssize(stack.parts); ++i)
    weights.push_back(
        {stack.parts[static_cast<size_t>(i)],
         {{dtype, Shape::of(sizes)}, [&state, dtype, decoded, i, all = std::ssize(stack.parts)] {
            if (decoded->left == all) decoded->value = value_of(state, dtype, false);
            Tensor part = matrix_of(decoded->value, i);
            if (--decoded->left == 0) *decoded = {{}, all};
            return part;
          }}});
}

// Returns the weights with the names and layouts of transformers, in the order of the architecture.
std::vector<Weight> weights_of(const Model& model, const Model& expected, const Family& family,
                               std::optional<DType> dtype) {
  std::vector<Weight> weights;
  for (const State& row : expected.states()) {
    if (!is_in_state_dict(row)) continue;
    const State& state = model.state(model.find_state(row.name));
    const DType as = dtype.value_or(state.type.dtype);
    if (const PartOfFused fused = fused_of(family, row.name); !fused.whole.empty()) {
      if (fused.parts.front() == row.name) weights.push_back(joined_weight(model, fused, as));
      continue;
    }
    const int64_t first_size = row.type.shape.rank() == 3 ? row.type.shape[0].value() : 0;
    if (const auto stack = stack_of(family, row.name, first_size); stack && first_size > 0) {
      add_stacked(state, *stack, as, weights);
      continue;
    }
    if (const auto other_way = turned_of(family, row.name)) {
      if (other_way->parts.front() == row.name) weights.push_back(turned_weight(model, *other_way, as));
      continue;
    }
    const bool turned = is_conv1d(family, row.name, row.type);
    std::vector<int64_t> sizes = row.type.shape.sizes();
    if (turned) std::swap(sizes[0], sizes[1]);
    weights.push_back(
        {row.name, {{as, Shape::of(sizes)}, [&state, as, turned] { return value_of(state, as, turned); }}});
  }
  return weights;
}

// Assigns weights to files in order; a file is filled up to its limit.
std::vector<std::vector<const Weight*>> shards_of(const std::vector<Weight>& weights, uint64_t most) {
  std::vector<std::vector<const Weight*>> shards(1);
  uint64_t used = 0;
  for (const Weight& weight : weights) {
    if (used > 0 && used + weight.bytes() > most) shards.emplace_back(), used = 0;
    shards.back().push_back(&weight);
    used += weight.bytes();
  }
  return shards;
}

class FolderWriter {
 public:
  FolderWriter(const fs::path& folder, const ExportOptions& options)
      : folder_(folder, options.replace, may_go), progress_(options.progress) {}

  void write_json(const std::string& name, const nlohmann::json& contents) {
    write_file_atomically(folder_.files() / name, contents.dump(2) + "\n");
    files_.push_back(name);
  }

  // Writes the files that came with the model: its tokenizer and sampling settings.
  void write_files(const Model& model) {
    for (const auto& [name, contents] : model.files) {
      const bool is_written_here = name == "config.json" || name.find(".safetensors") != std::string::npos;
      const std::string path = path_of_attached(name);
      if (is_written_here || !may_go(path)) continue;
      fs::create_directories((folder_.files() / path).parent_path());
      write_file_atomically(folder_.files() / path, attached_file(model, name).value());
      files_.push_back(path);
    }
  }

  void write_weights(const std::vector<Weight>& weights, uint64_t shard_bytes) {
    for (const Weight& weight : weights) total_ += weight.bytes();
    const auto shards = shards_of(weights, shard_bytes);
    nlohmann::json map = nlohmann::json::object();
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string file = shards.size() == 1
                                   ? "model.safetensors"
                                   : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
      write_shard(file, shards[i]);
      for (const Weight* weight : shards[i]) map[weight->name] = file;
    }
    if (shards.size() > 1)
      write_json("model.safetensors.index.json",
                 {{"metadata", {{"total_size", total_}}}, {"weight_map", std::move(map)}});
  }

  // Writes the linear layers behind the pooling of sentence-transformers, each into its folder.
  void write_dense(const Model& model, std::optional<DType> dtype) {
    const auto vectors = vectors_of(model);
    for (size_t layer = 0; vectors && layer < vectors->dense_features.size(); ++layer) {
      std::map<std::string, TensorToWrite> tensors;
      for (const char* part : {"weight", "bias"}) {
        const int32_t at = model.find_state(dense_state(layer, part));
        if (at < 0) continue;
        const State& state = model.state(at);
        const DType as = dtype.value_or(state.type.dtype);
        tensors.emplace(std::string("linear.") + part, TensorToWrite{{as, state.type.shape}, [&state, as] {
                                                                       return value_of(state, as, false);
                                                                     }});
      }
      const std::string file = dense_folder(layer) + "/model.safetensors";
      fs::create_directories((folder_.files() / file).parent_path());
      write_safetensors(folder_.files() / file, tensors, {{"format", "pt"}}, {});
      files_.push_back(file);
    }
  }

  std::vector<std::string> commit() {
    folder_.commit();
    std::ranges::sort(files_);
    return std::move(files_);
  }

 private:
  void write_shard(const std::string& file, const std::vector<const Weight*>& shard) {
    std::map<std::string, TensorToWrite> tensors;
    for (const Weight* weight : shard) tensors.emplace(weight->name, weight->tensor);
    uint64_t bytes = 0;
    write_safetensors(folder_.files() / file, tensors, {{"format", "pt"}}, [&](uint64_t written) {
      bytes = written;
      if (progress_) progress_("writing", done_ + written, total_);
    });
    done_ += bytes;
    files_.push_back(file);
  }

  AtomicFolder folder_;
  const OnProgress& progress_;
  std::vector<std::string> files_;
  uint64_t done_ = 0, total_ = 0;
};

// Returns the dtype of most bytes of the weights, which config.json states.
DType dtype_of(const std::vector<Weight>& weights) {
  std::map<DType, uint64_t> bytes;
  for (const Weight& weight : weights) bytes[weight.tensor.type.dtype] += weight.bytes();
  return std::ranges::max_element(bytes, [](auto& a, auto& b) { return a.second < b.second; })->first;
}

Exported export_plain(const Model& model, const fs::path& folder, const ExportOptions& options) {
  const FamilySettings made = settings_of(model);
  const auto expected = empty_model(model, made);
  check_is(model, *expected, made.family->name);
  const std::vector<Weight> weights = weights_of(model, *expected, *made.family, options.dtype);
  FolderWriter writer(folder, options);
  writer.write_json("config.json", config_for_export(model, made, dtype_of(weights)));
  writer.write_files(model);
  writer.write_weights(weights, options.shard_bytes);
  writer.write_dense(model, options.dtype);
  Exported exported{made.family->name, writer.commit()};
  for (const Weight& weight : weights) {
    exported.parameters += weight.tensor.type.numel();
    exported.bytes += weight.tensor.type.bytes();
  }
  return exported;
}

}  // namespace

Exported export_model(const Model& model, const fs::path& folder, const ExportOptions& options) {
  if (!passes::lora_of(model)) return export_plain(model, folder, options);
  Exported exported = export_plain(*passes::merge_lora(model), folder, options);
  exported.merged_adapters = static_cast<int64_t>(passes::lora_layers(model).size());
  return exported;
}

}  // namespace genesis::models::hugging_face
