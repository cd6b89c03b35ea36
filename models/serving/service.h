// Serves a model to clients of OpenAI's API: checks keys and origins, finds the route of a request, and has it answered. Knows no
// sockets: tools/serve/http_server.h brings requests and takes answers away.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "models/serving/exchange.h"
#include "models/serving/host.h"

namespace genesis::serving {

struct ServiceOptions {
  LanguageOptions language = {};
  std::string name = {};            // the model's, for clients; empty: that of the file without its ending
  std::set<std::string> keys = {};  // clients must have one of them; empty: all may ask
  // Origins of web pages that may ask, beside the server's own; "*": all.
  std::set<std::string> origins = {};
  bool is_local =
      true;  // listens on this machine only: then the client must have called it by a name of this machine
};

// Returns the adapter of a folder as PEFT saves it, or of a file in it, for LanguageOptions::adapters. Throws Error as
// hugging_face::load_adapter() does, and for an adapter that changes weights of the model itself, which all texts share.
text::Adapter read_adapter(const Model& model, const std::string& name, const std::filesystem::path& path);

// Returns the model's name for clients.
std::string name_for_clients(const ServiceOptions& options, const std::string& file);

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
  void drain() { host_.drains = true; }
  bool is_idle() const;  // no request is under way

  Host& host() { return host_; }
  const Host& host() const { return host_; }

 private:
  uint64_t check_access(const HttpRequest& request, bool is_open) const;
  void answer(const HttpRequest& request, const std::shared_ptr<Reply>& reply);

  const ServiceOptions options_;
  Host host_;
};

}  // namespace genesis::serving
