#include "models/hub/hub.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "models/hub/download.h"
#include "models/hub/repository.h"
#include "schema/core/error.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"

namespace genesis::hub {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  line.erase(line.find_last_not_of(" \t\r\n") + 1);
  return line;
}

bool is_commit(const std::string& text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Returns a name beside `path` that no other thread or process uses.
fs::path beside(const fs::path& path) {
  static std::atomic<int> number = 0;
  return fmt::format("{}.new-{}-{}", path.string(), ::getpid(), number++);
}

// A repository in the cache.
struct Cached {
  RepositoryName name;
  fs::path folder;

  fs::path ref() const { return folder / "refs" / name.revision; }
  fs::path snapshot(const std::string& commit) const { return folder / "snapshots" / commit; }
};

// Returns the snapshot of the revision if the cache has it; an empty path if not.
fs::path known_snapshot(const Cached& cached) {
  const std::string commit =
      is_commit(cached.name.revision) ? cached.name.revision : first_line(cached.ref());
  if (commit.empty() || !is_commit(commit) || !fs::is_directory(cached.snapshot(commit))) return {};
  return cached.snapshot(commit);
}

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path().lexically_relative(folder).generic_string());
  return files;
}

// Returns what a program opens: the folder, or the GGUF file.
std::string model_in(const fs::path& snapshot, const std::vector<std::string>& files) {
  return (is_gguf_name(files.front()) ? snapshot / files.front() : snapshot).string();
}

std::string from_cache(const Cached& cached, const HubSettings& settings, const std::string& reason) {
  const fs::path snapshot = known_snapshot(cached);
  if (snapshot.empty())
    fail("the model '{}' is not in the cache {}, and {}", cached.name.id, settings.cache.string(), reason);
  return model_in(snapshot, choose_files(cached.name, files_below(snapshot)));
}

struct Listing {
  std::string commit;
  std::vector<std::string> files;
};

Listing read_listing(const std::string& text, const std::string& id) {
  const nlohmann::json json = parse_json_object(text, "the hub's answer about '" + id + "'");
  Listing listing{json.value("sha", ""), {}};
  if (!is_commit(listing.commit)) fail("the hub's answer about '{}' names no commit", id);
  const auto siblings = json.find("siblings");
  if (siblings == json.end() || !siblings->is_array()) fail("the hub's answer about '{}' lists no files", id);
  for (const auto& file : *siblings) {
    if (!file.is_object() || !file.contains("rfilename") || !file["rfilename"].is_string()) continue;
    listing.files.push_back(file["rfilename"]);
    check_file_name(listing.files.back());
  }
  return listing;
}

Listing list_files(const Cached& cached, const HubSettings& settings) {
  const RepositoryName& name = cached.name;
  const HttpAnswer answer = ask(settings, "/api/models/" + name.id + "/revision/" + escaped(name.revision));
  if (answer.status == 401 || answer.status == 403)
    fail(
        "the model '{0}' cannot be read (status {1}): if there is such a model, it is private or gated: "
        "accept its terms at "
        "{2}/{0}, and set HF_TOKEN to a token that may read it",
        name.id, answer.status, settings.endpoint);
  if (answer.status == 404)
    fail("there is no model '{}' with the revision '{}' at {}", name.id, name.revision, settings.endpoint);
  if (answer.status != 200 || !answer.broken.empty())
    fail("{} does not list the files of '{}': status {}{}", settings.endpoint, name.id, answer.status,
         answer.broken.empty() ? "" : ", " + answer.broken);
  return read_listing(answer.body, name.id);
}

// Fetches a file and gives it its name in the snapshot.
void fetch_file(const Cached& cached, const HubSettings& settings, const std::string& commit,
                const std::string& file) {
  const fs::path link = cached.snapshot(commit) / file;
  if (fs::exists(link)) return;
  const std::string path = "/" + cached.name.id + "/resolve/" + commit + "/" + escaped(file);
  const RemoteFile remote = remote_file(settings, path, file);
  const fs::path blob = cached.folder / "blobs" / remote.etag;
  download(settings, remote, blob);
  fs::create_directories(link.parent_path());
  const fs::path other = beside(link);
  fs::create_symlink(fs::relative(blob, link.parent_path()), other);
  fs::rename(other, link);  // replaces a broken link, and that of another process
}

std::string fetch_into_cache(const std::string& name, const HubSettings& settings) {
  const RepositoryName parsed = parse_name(name);
  const Cached cached{parsed, settings.cache / parsed.folder()};
  if (settings.is_offline) return from_cache(cached, settings, "HF_HUB_OFFLINE is set");
  Listing listing;
  try {
    listing = list_files(cached, settings);
  } catch (const Error& error) {
    // Without a connection, a model that was fetched before is good enough.
    if (known_snapshot(cached).empty() || error.message().find("cannot be reached") == std::string::npos)
      throw;
    log_warning("{}; the model is taken from the cache", error.message());
    return from_cache(cached, settings, error.message());
  }
  const std::vector<std::string> files = choose_files(parsed, listing.files);
  for (const std::string& file : files) fetch_file(cached, settings, listing.commit, file);
  if (!is_commit(parsed.revision)) {
    fs::create_directories(cached.ref().parent_path());
    write_file_atomically(cached.ref(), listing.commit, LinkAtName::kReplaced);
  }
  return model_in(cached.snapshot(listing.commit), files);
}

}  // namespace

std::string fetch(const std::string& name, const HubSettings& settings) {
  try {
    return fetch_into_cache(name, settings);
  } catch (const fs::filesystem_error& error) {
    fail("the cache of models {}: {}", settings.cache.string(), error.what());
  }
}

}  // namespace genesis::hub
