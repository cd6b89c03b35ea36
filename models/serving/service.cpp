#include "models/serving/service.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "models/serving/api_error.h"
#include "models/serving/routes.h"
#include "schema/graph/caches.h"

namespace genesis::serving {
namespace {

// Compares in a time that does not depend on where the texts differ.
bool is_same(const std::string& a, const std::string& b) {
  unsigned different = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    different |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return different == 0;
}

// Returns a host without its port: "localhost" of "localhost:8080", "::1" of "[::1]:8080".
std::string without_port(std::string host) {
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_local_name(const std::string& host) {
  const std::string name = without_port(host);
  return name.empty() || name == "localhost" || name == "::1" || name.starts_with("127.");
}

// Counts an answer, and adds the headers that a page of another origin needs to read it.
class CountedReply : public Reply {
 public:
  CountedReply(std::shared_ptr<Reply> inner, std::string origin, Metrics& metrics, std::string route)
      : inner_(std::move(inner)), origin_(std::move(origin)), metrics_(metrics), route_(std::move(route)) {}

  void send(int status, Headers headers, std::string body) override {
    metrics_.count_answer(route_, status);
    inner_->send(status, with_origin(std::move(headers)), std::move(body));
  }
  void begin(int status, Headers headers) override {
    metrics_.count_answer(route_, status);
    inner_->begin(status, with_origin(std::move(headers)));
  }
  void write(std::string bytes) override { inner_->write(std::move(bytes)); }
  void end() override { inner_->end(); }
  void on_gone(std::function<void()> gone) override { inner_->on_gone(std::move(gone)); }

 private:
  Headers with_origin(Headers headers) const {
    if (origin_.empty()) return headers;
    headers.emplace_back("access-control-allow-origin", origin_);
    headers.emplace_back("access-control-expose-headers", "x-genesis-seed, x-genesis-ignored");
    headers.emplace_back("vary", "origin");
    return headers;
  }

  const std::shared_ptr<Reply> inner_;
  const std::string origin_;
  Metrics& metrics_;
  const std::string route_;
};

bool is_at(const Route& route, const std::string& path) {
  const bool has_rest = route.path.size() > 1 && route.path.ends_with('/');
  return has_rest ? path.starts_with(route.path) && path.size() > route.path.size() : path == route.path;
}

const Route* find_route(const HttpRequest& request) {
  const auto found = std::ranges::find_if(routes(), [&](const Route& route) {
    return route.method == request.method && is_at(route, request.path);
  });
  return found == routes().end() ? nullptr : &*found;
}

[[noreturn]] void fail_route(const HttpRequest& request) {
  for (const Route& route : routes())
    if (is_at(route, request.path))
      throw ApiError(405, "invalid_request_error", "method_not_allowed",
                     fmt::format("{} takes {}, got {}", request.path, route.method, request.method));
  throw ApiError(404, "invalid_request_error", "not_found", fmt::format("there is no {}", request.path));
}

}  // namespace

std::string name_for_clients(const ServiceOptions& options, const std::string& file) {
  return options.name.empty() ? std::filesystem::path(file).stem().string() : options.name;
}

Service::Service(std::shared_ptr<const Model> model, const std::string& file, const ServiceOptions& options)
    : options_(options), host_{.name = name_for_clients(options, file)} {
  host_.created = static_cast<int64_t>(std::time(nullptr));
  for (const text::Adapter& adapter : options.language.adapters) host_.adapters.push_back(adapter.name);
  if (model->find_entry("prefill") && model->find_entry("decode")) {
    host_.language = std::make_unique<LanguageModel>(model, file, options.language, host_.metrics);
    const CacheNeeds needs = cache_needs(*model, options.language);
    host_.metrics.set_rows(needs.rows, needs.positions, needs.cache_bytes);
  }
  host_.encoder = EncoderModel::open(model, file, options.language.session);
  if (!host_.language && !host_.encoder)
    fail("{} has nothing to serve: it has neither prefill and decode, nor embed, nor a classifier of texts",
         file);
}

Service::~Service() = default;

bool Service::is_idle() const {
  return (!host_.language || host_.language->is_idle()) && (!host_.encoder || host_.encoder->is_idle());
}

// Returns the number of the client's key, from 1; 0 if it needs none.
uint64_t Service::check_access(const HttpRequest& request, bool is_open) const {
  const std::string origin = request.header("origin"), host = request.header("host");
  const bool is_own = origin == "http://" + host || origin == "https://" + host;
  if (!origin.empty() && !is_own && !options_.origins.contains("*") && !options_.origins.contains(origin))
    throw ApiError(403, "permission_error", "origin_not_allowed",
                   fmt::format("pages of {} may not ask this server: --origin allows them", origin));
  if (is_open) return 0;
  if (options_.keys.empty()) {
    if (options_.is_local && !is_local_name(host))
      throw ApiError(
          403, "permission_error", "host_not_allowed",
          fmt::format("this server has no keys and answers only to names of its machine, got {}", host));
    return 0;
  }
  constexpr std::string_view kBearer = "Bearer ";
  const std::string given = request.header("authorization");
  uint64_t known = 0, number = 0;
  for (const std::string& key : options_.keys) {  // all of them, so that the time does not tell which
    ++number;
    if (given.starts_with(kBearer) && is_same(given.substr(kBearer.size()), key)) known = number;
  }
  if (known == 0)
    throw ApiError(401, "authentication_error", "invalid_api_key",
                   given.empty() ? "a key is missing: send the header 'Authorization: Bearer KEY'"
                                 : "this key is none of the server's");
  return known;
}

void Service::answer(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const Route* route = find_route(request);
  if (request.method == "OPTIONS") {
    check_access(request, true);
    return reply->send(204,
                       {{"access-control-allow-methods", "GET, POST"},
                        {"access-control-allow-headers", "authorization, content-type"},
                        {"access-control-max-age", "600"}},
                       "");
  }
  const uint64_t client = check_access(request, route && route->is_open);
  if (!route) fail_route(request);
  if (host_.drains && request.method == "POST")
    throw ApiError(503, "server_error", "shutting_down", "the server is ending and takes no more requests");
  route->answer({host_, request, reply, client});
}

void Service::handle(const HttpRequest& request, const std::shared_ptr<Reply>& reply) {
  const std::string origin = request.header("origin");
  const bool is_allowed = options_.origins.contains("*") || options_.origins.contains(origin);
  const Route* route = find_route(request);
  const auto counted = std::make_shared<CountedReply>(reply, is_allowed ? origin : "", host_.metrics,
                                                      std::string(route ? route->path : "other"));
  try {
    answer(request, counted);
  } catch (const std::exception& error) {
    const ApiError told = api_error_of(error, true);
    send_error(*counted, told, told.status == 429 ? Headers{{"retry-after", "1"}} : Headers{});
  }
}

}  // namespace genesis::serving
