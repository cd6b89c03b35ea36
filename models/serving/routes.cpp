#include "models/serving/routes.h"

#include "models/serving/fields.h"

namespace genesis::serving {
namespace {

Json model_json(const Host& host, const ChosenModel& chosen) {
  Json model = {{"id", chosen.name}, {"object", "model"}, {"created", host.created}, {"owned_by", "genesis"}};
  if (chosen.adapter > 0) model["parent"] = host.name;
  if (const LanguageModel* language = host.language.get()) {
    model["max_model_len"] = language->capacity();
    model["vocab_size"] = language->vocab_size();
  }
  return model;
}

// Returns the model with an adapter, from 1, or without one.
ChosenModel model_with(const Host& host, int64_t adapter) {
  return {adapter == 0 ? host.name : host.adapters[static_cast<size_t>(adapter - 1)], adapter};
}

ChosenModel find_model(const Host& host, const std::string& name) {
  std::string names;
  for (int64_t adapter = 0; adapter <= std::ssize(host.adapters); ++adapter) {
    const ChosenModel model = model_with(host, adapter);
    if (name == model.name || (adapter > 0 && name == host.name + ":" + model.name)) return model;
    names += fmt::format("{}'{}'", adapter == 0 ? "" : ", ", model.name);
  }
  throw ApiError(404, "invalid_request_error", "model_not_found",
                 fmt::format("there is no model '{}': this server has {}", name, names), "model");
}

void answer_health(const Call& call) {
  if (call.host.drains) throw ApiError(503, "server_error", "shutting_down", "the server is ending");
  call.send({{"status", "ok"}});
}

void answer_models(const Call& call) {
  Json models = Json::array();
  for (int64_t adapter = 0; adapter <= std::ssize(call.host.adapters); ++adapter)
    models.push_back(model_json(call.host, model_with(call.host, adapter)));
  call.send({{"object", "list"}, {"data", std::move(models)}});
}

void answer_model(const Call& call) {
  const std::string name = call.request.path.substr(std::string_view("/v1/models/").size());
  call.send(model_json(call.host, find_model(call.host, name)));
}

void answer_metrics(const Call& call) {
  call.reply->send(200, {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
                   call.host.metrics.text());
}

void answer_page(const Call& call) {
  call.reply->send(
      200,
      {{"content-type", "text/html; charset=utf-8"},
       {"content-security-policy",
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"}},
      std::string(chat_page()));
}

constexpr Route kRoutes[] = {
    {"GET", "/", answer_page, true},
    {"GET", "/health", answer_health, true},
    {"GET", "/metrics", answer_metrics},
    {"GET", "/v1/models", answer_models},
    {"GET", "/v1/models/", answer_model},  // and a name behind it
    {"POST", "/v1/chat/completions", answer_chat},
    {"POST", "/v1/completions", answer_completion},
    {"POST", "/v1/responses", answer_responses},
    {"POST", "/v1/embeddings", answer_embeddings},
    {"POST", "/v1/rerank", answer_rerank},
    {"POST", "/rerank", answer_rerank},
    {"POST", "/tokenize", answer_tokenize},
    {"POST", "/detokenize", answer_detokenize},
    {"POST", "/apply-template", answer_template},
};

[[noreturn]] void refuse_route(const Call& call, const std::string& what) {
  throw ApiError(400, "invalid_request_error", "unsupported_model",
                 fmt::format("the model {} {}", call.host.name, what), "model");
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

LanguageModel& Call::language() const {
  if (!host.language) refuse_route(*this, "writes no texts: it has no entry points prefill and decode");
  return *host.language;
}

EncoderModel& Call::embedder() const {
  if (!host.encoder || !host.encoder->makes_vectors())
    refuse_route(*this, "makes no vectors of texts: `genesis-build --pooling` adds the entry point embed");
  return *host.encoder;
}

EncoderModel& Call::reranker() const {
  if (!host.encoder || !host.encoder->scores_pairs())
    refuse_route(*this, "scores no pairs of texts: an encoder with a classifier does");
  return *host.encoder;
}

void Call::send(const Json& answer, Headers headers) const {
  headers.emplace_back("content-type", "application/json");
  reply->send(200, std::move(headers), json_line(answer));
}

ChosenModel read_model(Fields& fields, const Host& host) {
  const auto name = fields.text("model");
  return name ? find_model(host, *name) : model_with(host, 0);
}

}  // namespace genesis::serving
