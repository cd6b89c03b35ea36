// /v1/embeddings and /v1/rerank.
#include <algorithm>

#include "models/serving/fields.h"
#include "models/serving/routes.h"

namespace genesis::serving {
namespace {

constexpr size_t kMaxTexts = 2048;  // a request may have, as OpenAI says

std::string base64(const float* values, size_t count) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = reinterpret_cast<const unsigned char*>(values);
  const size_t size = count * sizeof(float);
  std::string text;
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = std::min<size_t>(size - i, 3);
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) three = three << 8 | (k < left ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= left ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::vector<std::string> read_texts(Fields& fields, const std::string& name) {
  fields.required(name, "a string, or a list of strings");
  std::vector<std::string> texts = fields.texts(name);
  if (texts.empty() || texts.size() > kMaxTexts)
    refuse(fields.path(name), "{}: expected 1 to {} texts, got {}", name, kMaxTexts, texts.size());
  return texts;
}

// Returns the documents, which are strings or objects with a "text".
std::vector<std::string> read_documents(Fields& fields) {
  const char* const expected = "a list of strings, or of objects with a string \"text\"";
  const Json& given = fields.required("documents", expected);
  if (!given.is_array() || given.empty() || given.size() > kMaxTexts)
    fields.refuse_value("documents", expected, given);
  std::vector<std::string> documents;
  for (const Json& one : given) {
    const Json text = one.is_object() ? one.value("text", Json()) : one;
    if (!text.is_string()) fields.refuse_value("documents", expected, one);
    documents.push_back(text.get<std::string>());
  }
  return documents;
}

bool reads_base64(Fields& fields) {
  const std::string encoding = fields.text("encoding_format").value_or("float");
  if (encoding != "float" && encoding != "base64")
    refuse("encoding_format", "encoding_format: expected \"float\" or \"base64\", got \"{}\"", encoding);
  return encoding == "base64";
}

Json vectors_json(const Tensor& vectors, bool is_base64) {
  Json data = Json::array();
  const auto features = static_cast<size_t>(vectors.size(1));
  const float* values = vectors.as<float>().data();
  for (int64_t i = 0; i < vectors.size(0); ++i, values += features) {
    Json vector =
        is_base64 ? Json(base64(values, features)) : Json(std::vector<float>(values, values + features));
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(vector)}});
  }
  return data;
}

// Adapters are for texts: the encoder's own weights would answer.
void refuse_adapters(Fields& fields, const Host& host) {
  if (read_model(fields, host).adapter > 0)
    refuse("model", "it names an adapter, which are for texts: expected '{}'", host.name);
}

}  // namespace

void answer_embeddings(const Call& call) {
  EncoderModel& model = call.embedder();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  refuse_adapters(fields, call.host);
  const std::vector<std::string> texts = read_texts(fields, "input");
  const bool is_base64 = reads_base64(fields);
  text::EmbedOptions options;
  options.dimensions = fields.number("dimensions", Range<int64_t>{1, model.features()}).value_or(0);
  options.prompt_name = fields.text("prompt_name").value_or("");
  fields.ignore({"user"});
  fields.refuse_others();
  int64_t tokens = 0;
  for (const std::string& text : texts) tokens += model.tokens_of(text);
  const Tensor vectors = model.embed(texts, options);
  call.send({{"object", "list"},
             {"data", vectors_json(vectors, is_base64)},
             {"model", call.host.name},
             {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

void answer_rerank(const Call& call) {
  EncoderModel& model = call.reranker();
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  refuse_adapters(fields, call.host);
  fields.required("query", "a string");
  const std::string query = *fields.text("query");
  const std::vector<std::string> documents = read_documents(fields);
  const auto top = fields.number("top_n", at_least<int64_t>(1)).value_or(std::ssize(documents));
  const bool with_documents = fields.flag("return_documents").value_or(false);
  fields.refuse_others();
  int64_t tokens = 0;
  for (const std::string& document : documents) tokens += model.tokens_of(query, document);
  Json results = Json::array();
  for (const auto& [index, score] : model.rank(query, documents)) {
    if (std::ssize(results) == top) break;
    results.push_back({{"index", index}, {"relevance_score", score}});
    if (with_documents) results.back()["document"] = {{"text", documents[index]}};
  }
  call.send({{"model", call.host.name},
             {"results", std::move(results)},
             {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

}  // namespace genesis::serving
