#include "schema/messages/log.h"

#include <spdlog/spdlog.h>

namespace genesis {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<int>(level)];
}

}  // namespace

bool is_logged(LogLevel level) { return spdlog::should_log(level_of(level)); }

void log_line(LogLevel level, std::string_view line) { spdlog::log(level_of(level), line); }

}  // namespace genesis
