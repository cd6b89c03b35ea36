#include "schema/messages/log.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <exception>

namespace genesis {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

}  // namespace

bool is_logged(LogLevel level) { return spdlog::should_log(level_of(level)); }

void log_text(LogLevel level, fmt::string_view text, fmt::format_args args) {
  if (!is_logged(level)) return;
  try {
    spdlog::log(level_of(level), fmt::vformat(text, args));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a line of the log is lost: %s\n", error.what());
  }
}

}  // namespace genesis
