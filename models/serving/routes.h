// The routes of a server: what answers a method and a path.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "models/serving/exchange.h"
#include "models/serving/host.h"
#include "models/serving/json.h"

namespace genesis::serving {

struct Call {
  Host& host;
  const HttpRequest& request;
  const std::shared_ptr<Reply>& reply;
  uint64_t client =
      0;  // the number of its key, from 1; 0: none was needed. Clients share nothing of the cache

  // These throw ApiError if the server's model cannot do that.
  LanguageModel& language() const;
  EncoderModel& embedder() const;
  EncoderModel& reranker() const;
  void send(const Json& answer, Headers headers = {}) const;
};

struct Route {
  std::string_view method, path;
  void (*answer)(const Call& call);
  bool is_open = false;  // needs no key and no model
};
std::span<const Route> routes();

void answer_chat(const Call& call);        // /v1/chat/completions
void answer_template(const Call& call);    // /apply-template
void answer_completion(const Call& call);  // /v1/completions
void answer_responses(const Call& call);   // /v1/responses
void answer_tokenize(const Call& call);    // /tokenize
void answer_detokenize(const Call& call);  // /detokenize
void answer_embeddings(const Call& call);  // /v1/embeddings
void answer_rerank(const Call& call);      // /v1/rerank

class Fields;
// The model that a request names: the server's, or that with one of its adapters.
struct ChosenModel {
  std::string name;     // its name in /v1/models
  int64_t adapter = 0;  // LanguageOptions::adapters, from 1; 0: none
};
// Reads "model": the server's name, also if there is none, an adapter's, or "MODEL:ADAPTER". Throws ApiError with the status 404 for
// another one.
ChosenModel read_model(Fields& fields, const Host& host);

// Returns the page with which a person tries the model in a browser.
std::string_view chat_page();

}  // namespace genesis::serving
