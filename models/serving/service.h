// Serves a model to clients of OpenAI's API: checks keys and origins, finds the route of a request, and has it answered. Knows no
// sockets: tools/serve/http_server.h brings requests and takes answers away.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/serving/encoder_model.h"
#include "models/serving/exchange.h"
#include "models/serving/language_model.h"
#include "models/serving/metrics.h"

namespace genesis::serving {

struct ServiceOptions {
  LanguageOptions language = {};
  std::string name = {};            // of the model, for clients; empty: that of the file without its ending
  std::set<std::string> keys = {};  // clients must have one of them; empty: all may ask
  // Origins of web pages that may ask, beside the server's own; "*": all.
  std::set<std::string> origins = {};
  bool is_local =
      true;  // listens on this machine only: then the client must have called it by a name of this machine
};

class Service {
 public:
  // Opens what the model can do: write texts (entry points prefill and decode), make vectors (embed), score pairs (a classifier).
  // Throws Error if it can do nothing of it.
  Service(std::shared_ptr<const Model> model, const std::string& file, const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Answers a request, now or later. Any thread may call this; it takes as long as reading the request takes.
  void handle(const HttpRequest& request, const std::shared_ptr<Reply>& reply);
  // From now on refuses requests that need the model with the status 503.
  void drain() { drains_ = true; }
  bool is_idle() const;  // no request is under way

  const std::string& name() const { return name_; }
  int64_t created() const { return created_; }
  LanguageModel* language() const { return language_.get(); }
  EncoderModel* encoder() const { return encoder_.get(); }
  Metrics& metrics() { return metrics_; }
  bool drains() const { return drains_; }

 private:
  void check_access(const HttpRequest& request, bool is_open) const;
  void answer(const HttpRequest& request, const std::shared_ptr<Reply>& reply);

  const ServiceOptions options_;
  const std::string name_;
  const int64_t created_;
  std::atomic<bool> drains_ = false;
  Metrics metrics_;
  std::unique_ptr<LanguageModel> language_;
  std::unique_ptr<EncoderModel> encoder_;
};

}  // namespace genesis::serving
