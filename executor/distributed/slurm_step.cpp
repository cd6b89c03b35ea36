#include "executor/distributed/slurm_step.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cctype>
#include <memory>

#include "schema/core/error.h"

namespace genesis {
namespace {

constexpr const char* kRemedy =
    "set MASTER_ADDR to an address of rank 0's host that all hosts reach, and MASTER_PORT to a free port";

[[noreturn]] void refuse_list(std::string_view hosts) {
  fail("SLURM_STEP_NODELIST is '{}', expected names of hosts such as n[001-003,007]-ib,login: {}", hosts,
       kRemedy);
}

bool is_host_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
}

// Returns the first number of e.g. "001-003,007". If the text is anything else, throws Error, which quotes the whole list
// `hosts`.
std::string_view first_number(std::string_view numbers, std::string_view hosts) {
  const std::string_view first = numbers.substr(0, numbers.find_first_of("-,"));
  if (first.empty() || numbers.find_first_not_of("0123456789-,") != numbers.npos) refuse_list(hosts);
  return first;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  constexpr uint32_t kLoopbackNet = 127;
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == kLoopbackNet;
}

// Returns the first address that other hosts can reach, preferably IPv4, so that ranks on all hosts choose the same one.
const addrinfo* choose_address(const addrinfo* addresses) {
  for (const int family : {AF_INET, AF_INET6})
    for (const addrinfo* at = addresses; at; at = at->ai_next)
      if (at->ai_family == family && !is_loopback(at->ai_addr)) return at;
  return nullptr;
}

// Returns e.g. "10.0.0.1" or "[fd00::1]".
std::string text_of(const addrinfo& address) {
  char text[NI_MAXHOST] = "";
  if (const int error =
          ::getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST))
    fail("an address cannot be written down: {}", ::gai_strerror(error));
  return address.ai_family == AF_INET6 ? "[" + std::string(text) + "]" : text;
}

}  // namespace

std::string first_host_of(std::string_view hosts) {
  std::string host;
  for (size_t at = 0; at < hosts.size() && hosts[at] != ','; ++at) {
    if (hosts[at] == '[') {
      const size_t end = hosts.find(']', at);
      if (end == hosts.npos) refuse_list(hosts);
      host += first_number(hosts.substr(at + 1, end - at - 1), hosts);
      at = end;
    } else if (is_host_character(hosts[at])) {
      host += hosts[at];
    } else {
      refuse_list(hosts);
    }
  }
  if (host.empty()) refuse_list(hosts);
  return host;
}

// The ports are below those that Linux gives to outgoing connections (32768 on). Consecutive jobs are `kJobStride` ports apart,
// so that the steps of one do not reach the ports of the next. The stride is coprime to kPorts: 10000 jobs start at 10000 ports.
int meeting_port(int64_t job, int64_t step) {
  constexpr int64_t kFirst = 20000, kPorts = 10000, kJobStride = 101;
  return static_cast<int>(kFirst + (job % kPorts * kJobStride + step % kPorts) % kPorts);
}

std::string resolve_meeting(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;  // one entry per address, not one per protocol
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found))
    fail("ranks meet at '{}', the host of rank 0, which has no address here ({}): {}", host,
         ::gai_strerror(error), kRemedy);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  const addrinfo* const chosen = choose_address(found);
  if (!chosen)
    fail(
        "ranks meet at '{}', the host of rank 0, which here is {}, an address that no other host reaches: {}",
        host, text_of(*found), kRemedy);
  return text_of(*chosen) + address.substr(colon);
}

}  // namespace genesis
