#include "models/formats/gguf/import.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "executor/state_dict.h"
#include "models/formats/gguf/config.h"
#include "models/formats/gguf/keep.h"
#include "models/formats/gguf/names.h"
#include "models/formats/gguf/sampling.h"
#include "models/formats/gguf/tokenizer.h"
#include "models/formats/hugging_face/encoded_states.h"
#include "models/formats/hugging_face/export_config.h"
#include "models/formats/hugging_face/extra_tensors.h"
#include "models/formats/hugging_face/family_settings.h"
#include "models/formats/hugging_face/fused.h"
#include "models/formats/hugging_face/import.h"
#include "models/reordered_rows.h"
#include "passes/core/name_patterns.h"
#include "schema/file/attached_files.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/other_formats/gguf_split.h"
#include "schema/messages/human_bytes.h"
#include "schema/messages/log.h"

namespace genesis::models::gguf {
namespace {

using hugging_face::QuantizedReport;

constexpr std::string_view kRemedy =
    "the file's metadata and its tensors must be of one model: get or convert it again, or correct the "
    "metadata with settings (genesis-build --set NAME=VALUE)";

void check_types(const Gguf& file) {
  std::map<std::string, int> unread;
  for (const auto& [name, tensor] : file.tensors)
    if (!tensor.type->is_readable()) ++unread[tensor.type->name];
  std::vector<std::string> lines;
  for (const auto& [type, count] : unread) lines.push_back(fmt::format("{} ({} tensors)", type, count));
  if (!lines.empty())
    fail("its weights are in types that are not read: {}; read are {}", fmt::join(lines, ", "),
         fmt::join(readable_gguf_types(), ", "));
}

// Logs what quantized weights became. Numbers of quantized types have up to 20 significant bits, of which bf16 keeps 8 and f16 11,
// and they take more memory than in the file. Users who chose a 4-bit file for its size need to know.
void tell_what_quantized_become(const Gguf& file, const Model& model, DType dtype,
                                const QuantizedReport& report) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes.size();
  const std::string text = report.to_string(dtype);
  if (text.empty()) return;
  int64_t taken = 0;
  for (const State& state : model.states())
    if (state.role == StateRole::kParameter) {
      taken += state.encoded ? 0 : state.type.bytes();
      for (const Tensor& part : state.encoded.parts) taken += part.bytes();
    }
  log_info("{}: {} of weights where the file has {}{}", text, human_bytes(taken),
           human_bytes(static_cast<int64_t>(bytes)),
           dtype == DType::f32 || report.widened.empty()
               ? ""
               : "; a widened number is rounded once, and --set dtype=f32 keeps it as the file means it");
}

// Reorders the rows of each head from pairs (0, h/2, 1, h/2 + 1, ...) to (0, 1, 2, ...).
Tensor without_pairs(const Tensor& matrix, int64_t head_size) {
  const int64_t rows = matrix.type().shape[0].value();
  if (head_size <= 0 || rows % head_size != 0 || head_size % 2 != 0) return matrix;  // refused later
  const int64_t row_bytes = rows == 0 ? 0 : matrix.bytes() / rows;
  std::byte* data;
  Tensor result = Tensor::uninitialized(matrix.type(), &data);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_size * head_size, i = row % head_size;
    const int64_t source = head + i % (head_size / 2) * 2 + i / (head_size / 2);
    std::memcpy(data + row * row_bytes, matrix.data() + source * row_bytes, static_cast<size_t>(row_bytes));
  }
  return result;
}

bool same_bytes(const GgufTensor& a, const GgufTensor& b) {
  return a.type == b.type && std::ranges::equal(a.bytes, b.bytes);
}

// Returns true for the head of a family whose head is the embedding; some files store it twice.
bool is_tied_head(const std::string& name, const Gguf& file, const Family& family) {
  if (!family.gguf->head_is_embedding || name != "output.weight") return false;
  const auto embedding = file.tensors.find("token_embd.weight");
  if (embedding == file.tensors.end() || !same_bytes(file.tensors.at(name), embedding->second))
    fail("its head output.weight is not its embedding token_embd.weight, as it has to be in {}", family.name);
  return true;
}

bool is_of_rotation(const std::string& name) {
  return name == kRopeDivisors || name == kLongFactors || name == kShortFactors;
}

// Returns a state that the weight `name` of the zoo becomes, in the case of fused weights the first one; -1 if there is none.
int32_t state_of(const std::string& name, const Model& model, const GgufForm& form) {
  if (name.empty()) return -1;
  if (const int32_t state = model.find_state(name); state >= 0) return state;
  const auto with_end = [&](const std::string& end, const std::string& other) {
    return model.find_state(name.substr(0, name.size() - end.size()) + other);
  };
  for (const FusedWeights& fused : form.fused)
    if (name.ends_with(fused.whole)) return with_end(fused.whole, fused.parts.front());
  for (const ArrangedWeight& arranged : form.arranged)
    for (const std::string& part : arranged.parts)
      if (name.ends_with(part)) return with_end(part, arranged.whole);
  return -1;
}

// Returns true if the model reads the tensor, or if it is one that a file may have for nothing.
bool has_place(const std::string& name, const Gguf& file, const Model& model, const Family& family) {
  if (is_of_rotation(name) || is_tied_head(name, file, family)) return true;
  return state_of(name_in_zoo(name, *family.gguf), model, *family.gguf) >= 0;
}

// Removes the tensors that the model has no place for and whose names match one of the patterns.
void leave_out_ignored(Gguf& file, const Model& model, const Family& family,
                       const std::vector<std::string>& ignored) {
  std::vector<std::string> extra;
  for (const auto& [name, tensor] : file.tensors)
    if (!has_place(name, file, model, family)) extra.push_back(name);
  hugging_face::warn_of_useless_patterns(extra, ignored);
  for (const std::string& name : extra)
    if (passes::matches_any(ignored, name)) file.tensors.erase(name);
}

// Returns advice for an error; names one of the weights that the model does not have, if there are any.
std::string remedy_for(const Gguf& file, const Model& model, const Family& family) {
  for (const auto& [name, tensor] : file.tensors)
    if (!has_place(name, file, model, family))
      return std::string(kRemedy) + fmt::format(hugging_face::kRemedyOfExtra, name);
  return std::string(kRemedy);
}

// Returns w of 1 + w. The difference is rounded once.
Tensor without_one(const Tensor& weight, DType dtype) {
  std::vector<float> values;
  for (const double value : weight.to_doubles()) values.push_back(static_cast<float>(value - 1));
  return Tensor::of(weight.shape().sizes(), values).to(dtype);
}

// Returns log(-a) for a, the rates of decay of a state space.
Tensor logarithms(const std::string& name, const Tensor& rates, DType dtype) {
  std::vector<float> values;
  for (const double rate : rates.to_doubles()) {
    if (!(rate < 0)) fail("the tensor for '{}' has the rate of decay {}, expected less than 0", name, rate);
    values.push_back(static_cast<float>(std::log(-rate)));
  }
  return Tensor::of(rates.shape().sizes(), values).to(dtype);
}

// Returns true for a weight of Mamba2, the gated delta rule or a short convolution whose shape in a file has an axis more or less.
bool has_other_shape(const std::string& name) {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{".A_log", ".D", ".conv1d.weight", ".conv.conv.weight",
                                              ".mamba.norm.weight", ".mixer.norm.weight"},
      [&](std::string_view end) { return name.ends_with(end); });
}

// Returns whether the shapes differ by axes of size 1 alone: programs that quantize files leave out such axes in front.
bool are_alike(const Shape& a, const Shape& b) {
  const auto sizes = [](const Shape& shape) {
    std::vector<int64_t> all = shape.sizes();
    std::erase(all, 1);
    return all;
  };
  return sizes(a) == sizes(b);
}

Tensor with_shape(const Tensor& tensor, const Shape& shape) {
  return {{tensor.type().dtype, shape}, std::make_shared<const Tensor>(tensor), tensor.data()};
}

// Returns a tensor of the file as the weight `name` of the zoo.
Tensor weight_of(const Gguf& file, const GgufTensor& t, const std::string& name, DType dtype,
                 const GgufForm& form) {
  if (name.ends_with(".A_log"))
    return logarithms(name, gguf_tensor(*t.type, t.shape, file.owner, t.bytes, DType::f32), dtype);
  if (!is_from_one(name, form)) return gguf_tensor(*t.type, t.shape, file.owner, t.bytes, dtype);
  return without_one(gguf_tensor(*t.type, t.shape, file.owner, t.bytes, DType::f32), dtype);
}

// Weights by their names in the zoo. Those in `kept` are stand-ins in `tensors`.
struct GgufWeights {
  NamedTensors tensors;
  std::map<std::string, EncodedValues> kept;
  QuantizedReport report;
};

// Says how tensors are read.
struct HowToRead {
  const Family& family;
  nlohmann::json settings;  // the file has these
  hugging_face::Quantized quantized;
};

// Returns a weight's rows, or those of a part of its encoding, in the order of the zoo. `name` is that of the zoo.
Tensor in_order_of_zoo(const std::string& name, const Tensor& tensor, const HowToRead& how) {
  const GgufForm& form = *how.family.gguf;
  if (has_rows_in_pairs(name, form) && tensor.type().shape.rank() == 2)
    return without_pairs(tensor, how.settings.value("head_dim", int64_t{0}));
  for (const OrderedRows& ordered : form.ordered)
    if (name.ends_with(ordered.name)) return rows_in_order({tensor}, ordered.order(how.settings));
  return tensor;
}

bool is_arranged(const std::string& name, const GgufForm& form) {
  return std::ranges::any_of(form.arranged, [&](const ArrangedWeight& arranged) {
    return std::ranges::any_of(arranged.parts, [&](const std::string& part) { return name.ends_with(part); });
  });
}

// Makes the weights that a file holds as other tensors. Where one of these is absent, the error of loading names what is missing.
void arrange(const HowToRead& how, NamedTensors& tensors) {
  for (const ArrangedWeight& arranged : how.family.gguf->arranged) {
    std::vector<std::string> layers;
    for (const auto& [name, tensor] : tensors)
      if (name.ends_with(arranged.parts[0]))
        layers.push_back(name.substr(0, name.size() - arranged.parts[0].size()));
    for (const std::string& layer : layers) {
      std::vector<Tensor> parts;
      for (const std::string& part : arranged.parts)
        if (const auto at = tensors.find(layer + part); at != tensors.end()) parts.push_back(at->second);
      if (parts.size() != arranged.parts.size()) continue;
      for (const std::string& part : arranged.parts) tensors.erase(layer + part);
      tensors.emplace(layer + arranged.whole,
                      with_context([&] { return arranged.make(how.settings, parts); },
                                   [&] { return "in '" + layer + arranged.whole + "'"; }));
    }
  }
}

// Adds one tensor. `known` is its name in the zoo, or empty. The rows of those that are not kept are reordered later, when fused
// matrices are split.
void add_weight(GgufWeights& weights, const Gguf& file, const std::string& name, const std::string& known,
                const State* state, const HowToRead& how) {
  const GgufForm& form = *how.family.gguf;
  const GgufTensor& tensor = file.tensors.at(name);
  const DType dtype = state ? state->type.dtype : DType::f32;
  const bool may_be_kept = state && state->type.shape == tensor.shape && state->name == known &&
                           !is_from_one(known, form) && !is_arranged(known, form);
  if (may_be_kept && how.quantized == hugging_face::Quantized::kKept)
    if (EncodedValues kept = gguf::kept(tensor, dtype)) {
      for (Tensor& part : kept.parts) part = in_order_of_zoo(known, part, how);
      weights.tensors.emplace(known, hugging_face::stand_in(state->type));
      weights.kept.emplace(known, std::move(kept));
      return;
    }
  if (!tensor.type->plain) ++weights.report.widened[tensor.type->name];
  Tensor weight = weight_of(file, tensor, known, dtype, form);
  if (state && state->type.shape.numel() == tensor.shape.numel() &&
      (has_other_shape(known) || (state->name == known && are_alike(state->type.shape, tensor.shape))))
    weight = with_shape(weight, state->type.shape);
  weights.tensors.emplace(known.empty() ? name : known, std::move(weight));
}

// A weight of another size is refused later. Its rows stay: the order of as many as the metadata state may not fit in memory.
bool has_size_of_state(const std::string& name, const Tensor& weight, const Model& model) {
  const int32_t state = model.find_state(name);
  return state >= 0 && model.state(state).type.shape.numel() == weight.type().shape.numel();
}

GgufWeights weights_of(const Gguf& file, const Model& model, const HowToRead& how) {
  const GgufForm& form = *how.family.gguf;
  GgufWeights weights;
  for (const auto& [name, tensor] : file.tensors) {
    if (is_of_rotation(name) || is_tied_head(name, file, how.family)) continue;
    const std::string known = name_in_zoo(name, form);
    const int32_t index = state_of(known, model, form);
    with_context(
        [&, &name = name] {
          add_weight(weights, file, name, known, index < 0 ? nullptr : &model.state(index), how);
        },
        [&name = name] { return "in tensor '" + name + "'"; });
  }
  hugging_face::split_fused(model, form.fused, weights.tensors);
  arrange(how, weights.tensors);
  for (auto& [name, weight] : weights.tensors)
    if (!weights.kept.contains(name) && has_size_of_state(name, weight, model))
      weight = in_order_of_zoo(name, weight, how);
  return weights;
}

// Attaches the tokenizer and chat template. If one cannot be converted, warns: the weights are useful without it.
void attach_tokenizer(Model& model, const Gguf& file, bool has_other_tokenizer) {
  const auto attach = [&](const char* name, const std::string& text) {
    if (!text.empty()) attach_file(model, name, text);
  };
  try {
    if (!has_other_tokenizer) attach("tokenizer.json", tokenizer_json(file));
  } catch (const Error& error) {
    log_warning(
        "{}; the weights are taken, and text will need another tokenizer (--tokenizer FOLDER, here or with "
        "later "
        "commands)",
        error.message());
  }
  try {
    attach("tokenizer_config.json", tokenizer_config_json(file));
  } catch (const Error& error) {
    log_warning("{}; conversations will need another chat template (--template)", error.message());
  }
}

// Returns the id of a special token: "bos" for tokenizer.ggml.bos_token_id. Warns and returns nothing if it is not a valid id.
std::optional<int64_t> special_token(const Gguf& file, const char* which, int64_t tokens) {
  const std::string name = fmt::format("tokenizer.ggml.{}_token_id", which);
  const auto at = file.metadata.find(name);
  if (at == file.metadata.end()) return std::nullopt;
  const int64_t* id = std::get_if<int64_t>(&at->second);
  if (id && *id >= 0 && *id < tokens) return *id;
  log_warning("its metadata '{}' are not the number of one of its {} tokens, and are left out", name, tokens);
  return std::nullopt;
}

DType dtype_of(const FamilySettings& made) {
  return *parse_dtype(made.settings.at("dtype").get<std::string>());
}

// Returns a config.json as transformers would have it: the tokens that end a text are looked up there, and export starts from it.
std::string config_of(const Gguf& file, const Model& model, const nlohmann::json& positions) {
  const FamilySettings made = hugging_face::settings_of(model);
  nlohmann::json config = hugging_face::config_for_export(model, made, dtype_of(made));
  if (!positions.is_null()) config["max_position_embeddings"] = positions;
  const int64_t tokens = made.settings.at("vocab_size");
  if (const auto id = special_token(file, "bos", tokens)) config["bos_token_id"] = *id;
  std::vector<int64_t> ends;
  for (const char* which : {"eos", "eot", "eom"})
    if (const auto id = special_token(file, which, tokens); id && std::ranges::find(ends, *id) == ends.end())
      ends.push_back(*id);
  if (ends.size() == 1)
    config["eos_token_id"] = ends[0];
  else if (!ends.empty())
    config["eos_token_id"] = ends;
  return config.dump();
}

std::unique_ptr<Model> make(Gguf& file, const Settings& changes, bool has_other_tokenizer,
                            const std::vector<std::string>& ignored, hugging_face::Quantized quantized) {
  FamilySettings made = read_config(file);
  const Family& family = *made.family;
  const nlohmann::json of_file = made.settings;
  const nlohmann::json longest = made.settings.value("max_position_embeddings", nlohmann::json());
  hugging_face::take_changes(made, changes);
  std::unique_ptr<Model> model = with_context([&] { return hugging_face::make_uninitialized(made); },
                                              [] { return "in the model that the metadata say"; });
  leave_out_ignored(file, *model, family, ignored);
  check_types(file);
  GgufWeights weights = weights_of(file, *model, {family, of_file, quantized});
  load_whole_state_dict(*model, weights.tensors, remedy_for(file, *model, family));
  for (auto& [name, values] : weights.kept)
    hugging_face::set_kept(*model, model->find_state(name), std::move(values), weights.report);
  model->metadata["config.json"] = config_of(file, *model, longest);
  attach_tokenizer(*model, file, has_other_tokenizer);
  attach_file(*model, "generation_config.json", generation_config_json(file));
  tell_what_quantized_become(file, *model, dtype_of(made), weights.report);
  return model;
}

}  // namespace

bool is_gguf_file(const std::filesystem::path& path) {
  if (file_ending(path) == ".gguf") return true;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::string first(4, '\0');
  return std::ifstream(path, std::ios::binary).read(first.data(), std::ssize(first)) && first == "GGUF";
}

std::unique_ptr<Model> import_model(const std::filesystem::path& path, const Settings& changes,
                                    MappedFiles* files, bool has_other_tokenizer,
                                    const std::vector<std::string>& ignored,
                                    hugging_face::Quantized quantized) {
  Gguf file = read_gguf_model(path);
  if (files) files->insert(files->end(), file.files.begin(), file.files.end());
  return with_context([&] { return make(file, changes, has_other_tokenizer, ignored, quantized); },
                      [&] { return path.string(); });
}

}  // namespace genesis::models::gguf
