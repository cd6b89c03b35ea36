#include "backends/rank_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace genesis {

bool are_on_one_host(std::span<const int64_t> ranks, std::span<const std::string> hosts) {
  const auto host = [&](int64_t rank) -> const std::string& { return hosts[static_cast<size_t>(rank)]; };
  return std::ranges::all_of(ranks, [&](int64_t rank) { return host(rank) == host(ranks[0]); });
}

std::string who_share_a_device(std::span<const std::string> devices, std::span<const std::string> hosts) {
  std::map<std::string, size_t> owners;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank].empty()) continue;
    const auto [first, is_new] = owners.try_emplace(devices[rank], rank);
    if (!is_new)
      return fmt::format(
          "{} and {} have the same GPU, {}, and each rank needs one of its own: start as many ranks on a "
          "host as it has GPUs, and let them see all (srun --gpus-per-node) or each another one",
          rank_name(static_cast<int>(first->second), hosts[first->second]),
          rank_name(static_cast<int>(rank), hosts[rank]), devices[rank]);
  }
  return "";
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string rank_name(int rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " (host " + host + ")";
}

}  // namespace genesis
