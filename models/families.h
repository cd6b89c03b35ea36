// The families of models, a table each: the network and its settings, and what other formats call these. The zoo, the readers of
// foreign formats and the tokenizers ask these tables for everything that depends on a family.
//
// models/families/<name>.cpp defines `<name>_family()`. The build's list of these files (models/meson.build) is the list of
// families, so a new one is one file and one line.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/formats/config_entry.h"
#include "schema/graph/model.h"

namespace genesis::models {

// A function that makes a model, and its settings. make_network() of models/network.h makes one from a struct of settings.
struct Network {
  nlohmann::ordered_json settings;  // each setting's standard value, in the order of genesis-build --list
  // Returns all settings with their types, as an object. Those that `settings` does not have get their standard values.
  // models/config_fields.h says which values are accepted, and which errors there are.
  std::function<nlohmann::json(const std::string& family, const nlohmann::json& settings)> complete;
  // Makes a model whose metadata holds "architecture" and "config". Throws Error that names the family if settings are invalid or
  // contradict each other.
  std::function<std::unique_ptr<Model>(const std::string& family, const nlohmann::json& settings,
                                       uint64_t seed)>
      make;
};

// Weights that a checkpoint holds as one matrix, whose rows are those of the parts in this order; of experts [experts, rows, columns]
// the matrix of each. The texts are ends of names. A single part, of any rank, is a tensor that checkpoints give another name.
struct FusedWeights {
  std::string whole;               // ".self_attn.qkv_proj.weight"
  std::vector<std::string> parts;  // ".self_attn.q_proj.weight", ...
};

// Weights of experts, which the zoo's models hold as one tensor, with the experts first, and checkpoints one by one: the tensor
// LAYER + `whole` has as row i the matrix LAYER + `before` + i + `after`.
struct StackedWeights {
  std::string whole;          // ".mlp.experts.gate_proj.weight"
  std::string before, after;  // ".mlp.experts." and ".gate_proj.weight"
};

// Weights of experts that checkpoints hold the other way around: for `count` parts, LAYER + `stored` [experts, in, count * out]
// has at (e, i, count * o + p) what part p has at (e, o, i). Biases have no axis `in`.
struct TurnedWeights {
  std::string stored;              // ".mlp.experts.gate_up_proj"
  std::vector<std::string> parts;  // ".mlp.experts.gate_proj.weight", ...
};

// The form of a model in transformers. Its tensors have the names of the zoo's.
struct HuggingFaceForm {
  std::string model_type;         // "qwen2"
  std::string class_name;         // "Qwen2ForCausalLM"
  ConfigEntries config;           // config.json, but for dtype, model_type and architectures
  std::string prefix = "model.";  // begins all names but the head's; a checkpoint without a head may lack it
  std::string embedding = "model.embed_tokens.weight";
  std::vector<std::string> stored_in_out = {};  // ends of names of matrices that are stored as [in, out]
  std::vector<FusedWeights> fused = {};
  std::vector<StackedWeights> stacked = {};
  std::vector<TurnedWeights> turned = {};
  // Names of tensors, each with the name of another one that has the same values: they are left out.
  std::vector<std::pair<std::string, std::string>> tied = {};
  // Families with several classes choose one by the settings. The base model is bare: its names lack the prefix, in the checkpoint
  // and in the zoo. Empty: there is one class, with the prefix.
  std::function<std::string(const nlohmann::json& settings)> class_of = {};
  std::function<bool(const nlohmann::json& settings)> is_bare = {};
  // Chooses settings that the tensors of a checkpoint tell, and not its config.json. `has` knows a tensor by its name in the file.
  std::function<void(nlohmann::json& settings, const std::function<bool(const std::string& name)>& has)>
      adapt = {};
};

// A setting that no metadata of a GGUF file say: llama.cpp looks whether the file has a tensor.
struct TensorFlag {
  std::string setting;      // "attention_bias"
  std::string tensor;       // "blk.0.attn_q.bias"
  bool where_there = true;  // the setting of files that have the tensor; others have the opposite
};

// Rows that llama.cpp's converter reorders: row i of a weight in the zoo is row order(settings)[i] of the tensor in the file. A
// vector's rows are its elements.
struct OrderedRows {
  std::string name;  // end of the weight's name in the zoo
  std::function<std::vector<int64_t>(const nlohmann::json& settings)> order;
};

// A weight that files hold otherwise than by the order of its rows, or as several tensors. Such weights do not stay quantized.
struct ArrangedWeight {
  std::string whole;  // end of its name in the zoo: ".self_attn.kv_b_proj.weight"
  std::vector<std::string>
      parts;  // ends of the names that `inside` gives the file's tensors; a file has all or none of them
  std::function<Tensor(const nlohmann::json& settings, const std::vector<Tensor>& parts)> make;
};

// The form of a model in GGUF files. A tensor "blk.3.attn_q.weight" is `blocks` + "3." + inside["attn_q"] + ".weight" in the zoo.
struct GgufForm {
  std::string architecture;  // "qwen2"
  // Names are without "qwen2.". The size of the vocabulary, and whether there is a head, are read from the tensors.
  ConfigEntries metadata;
  std::string blocks;  // "model.layers."
  // Layers outside and inside of the blocks. A name with ".weight" or ".bias" is that of a tensor, in the file alone.
  std::map<std::string, std::string> outside, inside;
  // Ends of names of matrices in the zoo whose heads have their rows in the order 0, h/2, 1, h/2 + 1, ...
  std::vector<std::string> rows_in_pairs = {};
  bool head_is_embedding = false;  // a head in the file must equal the embedding
  // The pre-tokenizer of files that name none (models/formats/gguf/pre_tokenizers.h); empty: gpt-2.
  std::string pre_tokenizer = {};
  // Two families may share an architecture. Files whose metadata have this number, and not as zero, are of this family; empty: all
  // files that no other family takes.
  std::string mark = {};
  std::vector<TensorFlag> flags = {};
  std::vector<FusedWeights> fused = {};    // by ends of names in the zoo; the whole is what `inside` says
  std::vector<std::string> from_one = {};  // ends of names of weights w in the zoo that files store as 1 + w
  std::vector<OrderedRows> ordered = {};
  std::vector<ArrangedWeight> arranged = {};
  std::string other_architecture = {};  // files of this one have the same form
  // Chooses settings that the tensors tell, and no metadata. `has` knows a tensor by its name in the file.
  std::function<void(nlohmann::json& settings, const std::function<bool(const std::string& name)>& has)>
      adapt = {};
};

// The tokenizer of folders that have vocab.json and merges.txt, and no tokenizer.json.
struct VocabularyForm {
  std::string pattern = {};               // for text::pattern_named(); empty: such folders have no tokenizer
  std::vector<std::string> classes = {};  // names in tokenizer_config.json
  std::string first_token = {};  // the token that begins a text where the folder asks for one and names none
};

struct Family {
  std::string name, summary;  // in the zoo
  Network network;
  std::optional<HuggingFaceForm> hugging_face = {};  // empty: cannot be imported from a folder, nor exported
  std::optional<GgufForm> gguf = {};                 // empty: no GGUF file has this architecture
  VocabularyForm vocabulary = {};
  std::string layers_setting = "num_hidden_layers";
  // Returns the number of tokens of the longest text by the settings. Empty: it is max_position_embeddings or n_positions.
  std::function<int64_t(const nlohmann::json& settings)> longest_text = {};
};

const std::vector<Family>& families();

// These return null if there is no such family. `name` is that of the zoo. A folder of transformers is known by the model_type
// of its config.json, or, if it has none, by a class among its architectures. A GGUF file is known by its architecture and, if
// several families share it, by a number among its metadata (GgufForm::mark), which `has` looks up; without `has` there is none.
const Family* find_family(std::string_view name);
const Family* family_of_config(const nlohmann::json& config);
const Family* family_of_gguf(std::string_view architecture,
                             const std::function<bool(const std::string& number)>& has = {});

// List families for messages, as "gpt2, llama or qwen2": all that can be imported from a folder, and from a GGUF file.
std::string hugging_face_families(std::string_view conjunction);
std::string gguf_families(std::string_view conjunction);

// A configuration of another format, translated to settings of a family.
struct FamilySettings {
  const Family* family;
  nlohmann::json settings;  // an object; settings that the configuration does not determine are absent
};

}  // namespace genesis::models
