// Fetches one file of a repository into the cache.
#pragma once

#include <filesystem>
#include <string>

#include "models/hub/http_client.h"
#include "models/hub/hub_settings.h"

namespace genesis::hub {

// Asks for the headers or, as a text, for the answer of a path below the endpoint; follows redirects by the rule of hub.h. Throws Error.
HttpAnswer ask(const HubSettings& settings, const std::string& path, bool head = false);

// Returns the URL that a redirect of `url` leads to. Throws Error if the rule of hub.h does not permit it.
std::string redirected(const HubSettings& settings, const std::string& url, const std::string& location);

// Returns `text` as a part of a URL. '/' stays.
std::string escaped(const std::string& text);

struct RemoteFile {
  std::string path;  // below the endpoint
  std::string name;  // for messages
  std::string etag;  // the digest of its bytes: 64 or 40 hexadecimal digits
  int64_t size = -1;
};

// Returns what the hub says of a file: its digest and its size.
RemoteFile remote_file(const HubSettings& settings, const std::string& path, const std::string& name);

// Fetches the file to `blob`, unless it is there. Continues PATH.incomplete, and checks the digest. Throws Error.
void download(const HubSettings& settings, const RemoteFile& file, const std::filesystem::path& blob);

}  // namespace genesis::hub
