#include "backends/rank_link.h"

namespace genesis {

std::string rank_name(int rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " (host " + host + ")";
}

}  // namespace genesis
