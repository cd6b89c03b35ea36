#include "models/families/encoder/config_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "schema/messages/log.h"

namespace genesis::models {

using nlohmann::json;

namespace {

// A head, and how the names of its classes end.
struct ClassOfHead {
  const char *head, *end;
};
constexpr ClassOfHead kClasses[] = {{"none", "Model"},
                                    {"masked_lm", "ForMaskedLM"},
                                    {"sequence_classification", "ForSequenceClassification"},
                                    {"token_classification", "ForTokenClassification"},
                                    {"masked_lm", "ForPreTraining"}};

std::string class_of(const std::string& stem, const json& settings) {
  const auto* found =
      std::ranges::find_if(kClasses, [&](const ClassOfHead& row) { return settings.at("head") == row.head; });
  return stem + (found == std::end(kClasses) ? "Model" : found->end);
}

void read_head(SettingsReader& r, const std::string& stem) {
  r.set("head", "none");
  const json& classes = r.get("architectures");
  if (!classes.is_array() || classes.empty()) return;
  for (const auto& [head, end] : kClasses)
    if (classes.front() == stem + end) return r.set("head", head);
  r.refuse("architectures",
           fmt::format("[\"{0}Model\"], [\"{0}ForMaskedLM\"], "
                       "[\"{0}ForSequenceClassification\"] or [\"{0}ForTokenClassification\"]",
                       stem));
}

ConfigEntry head_entry(const std::string& stem) {
  return {.settings = {"head"},
          .read = [=](SettingsReader& r) { read_head(r, stem); },
          .write = [=](const json& settings,
                       json& config) { config["architectures"] = json::array({class_of(stem, settings)}); }};
}

// transformers writes the number of labels as the size of id2label.
void read_labels(SettingsReader& r) {
  const json &names = r.get("id2label"), &count = r.get("num_labels");
  r.ignore({"label2id"});
  if (names.is_object() && !names.empty()) return r.set("num_labels", names.size());
  if (count.is_null()) return r.set("num_labels", 2);
  r.copy_size("num_labels", "num_labels");
}

void write_labels(const json& settings, json& config) {
  json names = json::object(), ids = json::object();
  for (int64_t i = 0; i < settings.at("num_labels").get<int64_t>(); ++i) {
    const std::string name = fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = name;
    ids[name] = i;
  }
  config["id2label"] = std::move(names);
  config["label2id"] = std::move(ids);
}

ConfigEntry labels_entry() {
  return {.settings = {"num_labels"},
          .read = read_labels,
          .write = write_labels,
          .replaces = {"id2label", "label2id", "num_labels"}};
}

void read_problem(SettingsReader& r) {
  const json& type = r.get("problem_type");
  if (type.is_null()) return;
  for (const char* known : {"regression", "single_label_classification", "multi_label_classification"})
    if (type == known) return r.set("problem_type", known);
  r.refuse("problem_type", "regression, single_label_classification or multi_label_classification");
}

ConfigEntry problem_entry() {
  return {
      .settings = {"problem_type"}, .read = read_problem, .write = [](const json& settings, json& config) {
        const json& type = settings.at("problem_type");
        config["problem_type"] = type == "default" ? json() : type;
      }};
}

constexpr const char *kIdentity = "torch.nn.modules.linear.Identity",
                     *kSigmoid = "torch.nn.modules.activation.Sigmoid",
                     *kOfSentenceTransformers = "sentence_transformers",
                     *kOlderActivation = "sbert_ce_default_activation_function";

// sentence-transformers keeps the activation of a cross-encoder's scores in config.json.
void read_scores(SettingsReader& r) {
  json activation = r.get(kOlderActivation);
  const json& section = r.get(kOfSentenceTransformers);
  if (section.is_object()) {
    for (const auto& [name, value] : section.items())
      if (name != "activation_fn" && name != "version")
        r.add_problem(fmt::format("{}.{}: {}", kOfSentenceTransformers, name, r.shown(value)));
    activation = section.value("activation_fn", activation);
  } else if (!section.is_null()) {
    r.refuse(kOfSentenceTransformers, "an object");
  }
  if (activation == kIdentity)
    r.set("score_activation", "identity");
  else if (activation == kSigmoid)
    r.set("score_activation", "sigmoid");
  else if (!activation.is_null())
    r.add_problem(fmt::format("the activation of scores {}, expected {} or {}", r.shown(activation),
                              kIdentity, kSigmoid));
}

ConfigEntry scores_entry() {
  return {.settings = {"score_activation"},
          .read = read_scores,
          .write =
              [](const json& settings, json& config) {
                const json& activation = settings.at("score_activation");
                if (activation != "default")
                  config[kOfSentenceTransformers] = {
                      {"activation_fn", activation == "sigmoid" ? kSigmoid : kIdentity}};
              },
          .replaces = {kOfSentenceTransformers, kOlderActivation}};
}

constexpr std::pair<const char*, const char*> kActivations[] = {
    // names of transformers (ACT2FN), the first of each activation is written
    {"gelu", "gelu"},
    {"gelu_python", "gelu"},
    {"gelu_new", "gelu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh"},
    {"gelu_python_tanh", "gelu_tanh"},
    {"gelu_fast", "gelu_tanh"},
    {"gelu_accurate", "gelu_tanh"},
    {"relu", "relu"},
    {"silu", "silu"},
    {"swish", "silu"}};

// Chooses what a checkpoint has that config.json does not say: a pooler, and no head where only the base model was saved.
void adapt(json& settings, const std::function<bool(const std::string&)>& has, const std::string& prefix,
           const std::string& mlm_dense) {
  if (settings.at("head") == "masked_lm" && !has(mlm_dense)) {
    settings["head"] = "none";
    log_info(
        "the checkpoint has no head for masked tokens, though config.json says so: the base model is opened");
  }
  if (settings.at("head") == "none" && settings.contains("pooler"))
    settings["pooler"] = has("pooler.dense.weight") || has(prefix + "pooler.dense.weight");
}

}  // namespace

ConfigEntry activation_entry(const std::string& name, const std::string& setting) {
  return {.settings = {setting},
          .read =
              [=](SettingsReader& r) {
                const json given = r.given(name, "gelu");
                for (const auto& [theirs, ours] : kActivations)
                  if (given == theirs) return r.set(setting, ours);
                r.add_problem(fmt::format("{}: {}", name, r.shown(given)));
              },
          .write =
              [=](const json& settings, json& config) {
                for (const auto& [theirs, ours] : kActivations)
                  if (settings.at(setting) == ours) {
                    config[name] = theirs;
                    return;
                  }
              }};
}

ConfigEntries encoder_config(const std::string& stem, const EncoderDefaults& d, const ConfigEntries& more) {
  ConfigEntries all = {head_entry(stem),
                       size_entry("vocab_size", d.vocab_size),
                       size_entry(d.hidden_size_name, d.hidden_size, "hidden_size"),
                       size_entry(d.intermediate_size_name, d.intermediate_size, "intermediate_size"),
                       size_entry(d.layers_name, d.num_hidden_layers, "num_hidden_layers"),
                       size_entry(d.heads_name, d.num_attention_heads, "num_attention_heads"),
                       size_entry("max_position_embeddings", d.max_position_embeddings),
                       activation_entry(d.activation_name, "hidden_act"),
                       labels_entry(),
                       problem_entry(),
                       scores_entry(),
                       only_entry("position_embedding_type", {"absolute"}, false),
                       only_entry("is_decoder", {false}, false),
                       only_entry("is_causal", {false}, false),
                       only_entry("add_cross_attention", {false}, false),
                       only_entry("tie_word_embeddings", {true}, true),
                       only_entry("quantization_config", {nullptr}, false),
                       written_entry("initializer_range", {"initializer_range"})};
  if (d.norm_eps_name) all.push_back(number_entry(d.norm_eps_name, d.norm_eps, "layer_norm_eps"));
  return joined(all, more);
}

HuggingFaceForm encoder_form(const std::string& model_type, const std::string& stem,
                             const std::string& prefix, const std::string& embedding, ConfigEntries config,
                             const MlmTensors& head) {
  HuggingFaceForm form{.model_type = model_type,
                       .class_name = stem + "Model",
                       .config = std::move(config),
                       .prefix = prefix,
                       .embedding = prefix + embedding};
  form.tied = {{head.decoder + ".weight", form.embedding}, {head.decoder + ".bias", head.bias}};
  form.class_of = [stem](const json& settings) { return class_of(stem, settings); };
  form.is_bare = [](const json& settings) { return settings.at("head") == "none"; };
  form.adapt = [=](json& settings, const std::function<bool(const std::string&)>& has) {
    adapt(settings, has, prefix, head.dense);
  };
  return form;
}

}  // namespace genesis::models
