// Requests over HTTP with libcurl, which is opened at the first request: it needs thirty other libraries, which would delay the start of
// every tool.
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "models/hub/http_client.h"
#include "schema/core/error.h"

namespace genesis::hub {
namespace {

constexpr size_t kMaxBody = 64 << 20;

struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

Curl opened() {
  void* library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!library) fail("the hub cannot be reached without libcurl (the package libcurl4): {}", ::dlerror());
  Curl curl{};
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (!function) fail("libcurl.so.4 has no function {}", name);
  };
  find(curl.global_init, "curl_global_init");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_perform, "curl_easy_perform");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) fail("libcurl cannot be used");
  return curl;
}

const Curl& library() {
  static const Curl curl = opened();
  return curl;
}

// An answer that is being received.
struct Receiver {
  const HttpRequest& request;
  CURL* curl;
  HttpAnswer answer;
  bool has_begun = false;
  std::exception_ptr raised = {};

  void begin() {
    if (std::exchange(has_begun, true)) return;
    long status = 0;
    library().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    if (request.on_begin) request.on_begin(answer.status);
  }
  bool take(std::string_view bytes) try {
    begin();
    if (request.sink && (answer.status == 200 || answer.status == 206)) {
      request.sink(bytes);
    } else {
      if (answer.body.size() + bytes.size() > kMaxBody) fail("the answer of {} is too long", request.url);
      answer.body += bytes;
    }
    return true;
  } catch (...) {
    raised = std::current_exception();
    return false;
  }
  void take_header(std::string_view line) {
    const size_t colon = line.find(':');
    if (line.starts_with("HTTP/")) answer.headers.clear();
    if (colon == std::string_view::npos) return;
    std::string name(line.substr(0, colon)), value(line.substr(colon + 1));
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    value.erase(0, value.find_first_not_of(" \t"));
    value.erase(value.find_last_not_of(" \t\r\n") + 1);
    answer.headers[name] = value;
  }
};

size_t on_body(char* data, size_t size, size_t count, void* receiver) {
  return static_cast<Receiver*>(receiver)->take({data, size * count}) ? size * count : 0;
}

size_t on_header(char* data, size_t size, size_t count, void* receiver) {
  static_cast<Receiver*>(receiver)->take_header({data, size * count});
  return size * count;
}

void set_up(CURL* curl, const HttpRequest& request, Receiver& receiver) {
  const auto set = library().easy_setopt;
  set(curl, CURLOPT_URL, request.url.c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_FOLLOWLOCATION, 0L);
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_USERAGENT, "genesis");
  set(curl, CURLOPT_CONNECTTIMEOUT, 20L);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(curl, CURLOPT_LOW_SPEED_TIME, 60L);
  if (request.head) set(curl, CURLOPT_NOBODY, 1L);
  // With CURLOPT_RESUME_FROM, libcurl would refuse an answer that begins at the first byte again.
  if (request.from > 0) set(curl, CURLOPT_RANGE, fmt::format("{}-", request.from).c_str());
  set(curl, CURLOPT_WRITEFUNCTION, on_body);
  set(curl, CURLOPT_WRITEDATA, &receiver);
  set(curl, CURLOPT_HEADERFUNCTION, on_header);
  set(curl, CURLOPT_HEADERDATA, &receiver);
}

}  // namespace

HttpAnswer send(const HttpRequest& request) {
  const Curl& lib = library();
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(lib.easy_init(), lib.easy_cleanup);
  if (!curl) fail("libcurl cannot be used");
  Receiver receiver{request, curl.get(), {}};
  set_up(curl.get(), request, receiver);
  curl_slist* lines = nullptr;
  if (!request.token.empty())
    lines = lib.slist_append(lines, ("Authorization: Bearer " + request.token).c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(lines, lib.slist_free_all);
  lib.easy_setopt(curl.get(), CURLOPT_HTTPHEADER, lines);
  const CURLcode code = lib.easy_perform(curl.get());
  if (receiver.raised) std::rethrow_exception(receiver.raised);
  long status = 0;
  lib.easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (code != CURLE_OK && status == 0) fail("{} cannot be reached: {}", request.url, lib.easy_strerror(code));
  receiver.begin();
  if (code != CURLE_OK) receiver.answer.broken = lib.easy_strerror(code);
  return std::move(receiver.answer);
}

}  // namespace genesis::hub
