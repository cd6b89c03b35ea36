// A build without libcurl downloads nothing; it finds what the cache has.
#include "models/hub/http_client.h"
#include "schema/core/error.h"

namespace genesis::hub {

HttpAnswer send(const HttpRequest& request) {
  fail(
      "{} cannot be reached: this build has no libcurl (libcurl4-openssl-dev), without which it downloads "
      "nothing",
      request.url);
}

}  // namespace genesis::hub
