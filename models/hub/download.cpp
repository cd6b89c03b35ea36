#include "models/hub/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "models/hub/digest.h"
#include "schema/core/error.h"
#include "schema/core/parse_number.h"

namespace genesis::hub {
namespace {

namespace fs = std::filesystem;
constexpr int kMaxRedirects = 5, kMaxTries = 4;

struct Url {
  std::string scheme, host, port;  // the host in lower case
};

// Splits "https://host:port/path". A user's name in a URL makes it none.
Url parts_of(const std::string& url) {
  const size_t colon = url.find("://");
  if (colon == std::string::npos) return {};
  const size_t begin = colon + 3;
  std::string host = url.substr(begin, url.find_first_of("/?#", begin) - begin);
  if (host.find('@') != std::string::npos) return {};
  std::ranges::transform(host, host.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t port = host.rfind(':');
  if (port == std::string::npos || host.ends_with(']')) return {url.substr(0, colon), host, ""};
  return {url.substr(0, colon), host.substr(0, port), host.substr(port + 1)};
}

bool is_below(const std::string& host, const std::string& domain) {
  return host == domain || host.ends_with("." + domain);
}

bool is_endpoint(const HubSettings& settings, const std::string& url) {
  const Url to = parts_of(url), own = parts_of(settings.endpoint);
  return to.scheme == own.scheme && to.host == own.host && to.port == own.port;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Sends a request and follows redirects, except for one that has all headers that were asked for. `on_begin` is called for the last
// answer.
HttpAnswer follow(const HubSettings& settings, HttpRequest request) {
  // Without a host that can be compared, any URL of this kind would be taken for the endpoint's.
  if (parts_of(settings.endpoint).host.empty())
    fail("HF_ENDPOINT is no address: expected https://HOST or http://HOST:PORT, without a user's name");
  const auto on_begin = std::exchange(request.on_begin, {});
  request.on_begin = [&](int status) {
    if (on_begin && !is_redirect(status)) on_begin(status);
  };
  for (int i = 0; i < kMaxRedirects; ++i) {
    request.token = is_endpoint(settings, request.url) ? settings.token : "";
    HttpAnswer answer = send(request);
    if (!is_redirect(answer.status)) return answer;
    const std::string next = redirected(settings, request.url, answer.header("location"));
    if (request.head && !answer.header("x-linked-etag").empty()) return answer;
    request.url = next;
  }
  fail("{} is redirected more than {} times", request.url, kMaxRedirects);
}

[[noreturn]] void fail_status(const HubSettings& settings, const std::string& what, int status) {
  if (status == 401 || status == 403)
    fail(
        "{} cannot be read (status {}): if it is gated, accept its terms at {} and set HF_TOKEN to a token "
        "that may read it; if "
        "not, check its name",
        what, status, settings.endpoint);
  if (status == 404) fail("there is no {} at {}", what, settings.endpoint);
  if (status == 429)
    fail("{} has had too many requests (status 429): try again later, or set HF_TOKEN", settings.endpoint);
  fail("{} was answered with the status {} by {}", what, status, settings.endpoint);
}

std::string plain_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

// An open file, closed at the end, also of a constructor that throws.
struct Descriptor {
  explicit Descriptor(int given = -1) : number(given) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  int number;
};

// A file that is being fetched, which other processes leave alone.
class Incomplete {
 public:
  // Waits for the lock. The one who had it may have renamed the file or, as damaged, removed it: then another one is made.
  explicit Incomplete(fs::path path) : path_(std::move(path)) {
    do {
      descriptor_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT, 0644));
      if (descriptor_.number < 0 || ::flock(descriptor_.number, LOCK_EX) != 0) refuse();
    } while (!is_at_path());
  }
  Incomplete(const Incomplete&) = delete;
  Incomplete& operator=(const Incomplete&) = delete;

  int64_t size() const { return ::lseek(descriptor_.number, 0, SEEK_END); }
  void clear() {
    if (::ftruncate(descriptor_.number, 0) != 0) refuse();
  }
  void append(std::string_view bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::pwrite(descriptor_.number, bytes.data() + done, bytes.size() - done, size());
      if (n <= 0) refuse();
      done += static_cast<size_t>(n);
    }
  }
  const fs::path& path() const { return path_; }

 private:
  [[noreturn]] void refuse() const {
    fail("'{}' cannot be written: {}", path_.string(), std::strerror(errno));
  }

  bool is_at_path() const {
    struct stat own {
    }, there{};
    if (::fstat(descriptor_.number, &own) != 0) refuse();
    return ::stat(path_.c_str(), &there) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
  }

  fs::path path_;
  Descriptor descriptor_;
};

// Fetches the bytes that are missing. Returns the reason if the answer broke off.
std::string fetch_rest(const HubSettings& settings, const RemoteFile& file, Incomplete& to) {
  HttpRequest request{.url = settings.endpoint + file.path, .from = to.size()};
  request.on_begin = [&](int status) {
    if (status == 200) to.clear();  // the server sends all of it again
  };
  request.sink = [&](std::string_view bytes) {
    to.append(bytes);
    if (settings.progress)
      settings.progress("fetching " + file.name, static_cast<uint64_t>(to.size()),
                        static_cast<uint64_t>(file.size));
    if (file.size >= 0 && to.size() > file.size)
      fail("{} is longer than the hub says: {} bytes", file.name, file.size);
  };
  const HttpAnswer answer = follow(settings, request);
  if (answer.status == 416) to.clear();
  if (answer.status != 200 && answer.status != 206 && answer.status != 416)
    fail_status(settings, file.name, answer.status);
  return answer.broken;
}

void check_digest(const RemoteFile& file, const fs::path& path) {
  const std::string got = file.etag.size() == 64 ? sha256_of(path) : git_digest_of(path);
  if (got == file.etag) return;
  fs::remove(path);
  fail("{} is damaged: its digest is {}, expected {}. It was removed; the same command fetches it again",
       file.name, got, file.etag);
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) ||
                          std::string_view("-._~/").find(c) != std::string_view::npos;
    result += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return result;
}

std::string redirected(const HubSettings& settings, const std::string& url, const std::string& location) {
  if (location.starts_with("/") && !location.starts_with("//")) {
    const size_t path = url.find('/', url.find("://") + 3);
    return url.substr(0, path) + location;
  }
  const Url to = parts_of(location), own = parts_of(settings.endpoint);
  const bool is_hub = is_below(own.host, "huggingface.co") || is_below(own.host, "hf.co");
  const bool is_hubs = to.scheme == "https" && to.port.empty() &&
                       (is_below(to.host, "huggingface.co") || is_below(to.host, "hf.co"));
  if (is_endpoint(settings, location) || (is_hub && is_hubs)) return location;
  fail("{} leads to another host, '{}', which is none of the endpoint's: it is not followed", url,
       to.host.empty() ? location : to.host);
}

HttpAnswer ask(const HubSettings& settings, const std::string& path, bool head) {
  return follow(settings, {.url = settings.endpoint + path, .head = head});
}

RemoteFile remote_file(const HubSettings& settings, const std::string& path, const std::string& name) {
  const HttpAnswer answer = ask(settings, path, true);
  if (answer.status >= 400) fail_status(settings, name, answer.status);
  const std::string linked = answer.header("x-linked-etag"), size = answer.header("x-linked-size");
  RemoteFile file{path, name, plain_etag(linked.empty() ? answer.header("etag") : linked)};
  const bool has_own_length = size.empty() && !is_redirect(answer.status);  // a redirect's length is its own
  file.size = parse_number<int64_t>(has_own_length ? answer.header("content-length") : size).value_or(-1);
  const bool is_hexadecimal = file.etag.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hexadecimal || (file.etag.size() != 64 && file.etag.size() != 40))
    fail("{}: the hub names no digest: its ETag is '{}'", name, file.etag);
  return file;
}

void download(const HubSettings& settings, const RemoteFile& file, const fs::path& blob) {
  if (fs::exists(blob)) return;
  fs::create_directories(blob.parent_path());
  Incomplete to(blob.string() + ".incomplete");
  if (fs::exists(blob)) {  // another process had the lock and has fetched it
    fs::remove(to.path());
    return;
  }
  std::string broken;
  for (int i = 0; i < kMaxTries && to.size() != file.size; ++i) {
    broken = fetch_rest(settings, file, to);
    if (broken.empty() && file.size < 0) break;
  }
  if (file.size >= 0 && to.size() != file.size)
    fail("{} is not complete, {} of {} bytes are there{}: the same command continues", file.name, to.size(),
         file.size, broken.empty() ? "" : " (" + broken + ")");
  check_digest(file, to.path());
  fs::rename(to.path(), blob);
}

}  // namespace genesis::hub
