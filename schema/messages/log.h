// What the library tells beside its results, through spdlog's default logger: whoever uses the library chooses where that goes.
// Behind functions of our own, since spdlog's header takes each file that includes it four seconds to compile.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace genesis {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

bool is_logged(LogLevel level);
void log_line(LogLevel level, std::string_view line);

// `text` and its arguments as fmt::format() has them; they are put together only where somebody listens.
template <class... Args>
void log_text(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (is_logged(level)) log_line(level, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kDebug, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kInfo, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kWarning, text, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_text(LogLevel::kError, text, std::forward<Args>(args)...);
}

}  // namespace genesis
