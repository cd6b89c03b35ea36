// Captures the debug messages of a piece of work.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <functional>
#include <memory>
#include <sstream>
#include <string>

namespace genesis::testing {

inline std::string debug_text(const std::function<void()>& body) {
  std::ostringstream text;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
  const auto logger = std::make_shared<spdlog::logger>("debug", sink), before = spdlog::default_logger();
  logger->set_level(spdlog::level::debug);
  spdlog::set_default_logger(logger);
  body();
  spdlog::set_default_logger(before);
  return text.str();
}

}  // namespace genesis::testing
