// A build without Boost serves nothing.
#include "schema/core/error.h"
#include "tools/serve/http_server.h"

namespace genesis::tools {

class HttpServer::Impl {};

bool has_http_server() { return false; }

HttpServer::HttpServer(HttpOptions) {
  fail(
      "this build has no server, because Boost was not there: install libboost-dev, run `meson setup "
      "--reconfigure -Dserve=enabled build`, and build again");
}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return 0; }
void HttpServer::run() {}

}  // namespace genesis::tools
