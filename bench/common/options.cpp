#include "bench/common/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

namespace genesis::bench {

struct Options::App : CLI::App {
  using CLI::App::App;
};

Options::Options(const std::string& what) : app_(std::make_unique<App>(what)) {}
Options::~Options() = default;

void Options::text(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help);
}

void Options::argument(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help)->required();
}

void Options::number(const std::string& name, int& value, const std::string& help) {
  app_->add_option(name, value, help);
}

void Options::number(const std::string& name, int64_t& value, const std::string& help) {
  app_->add_option(name, value, help);
}

void Options::number(const std::string& name, double& value, const std::string& help) {
  app_->add_option(name, value, help);
}

void Options::number(const std::string& name, int& value, const std::string& help, int least, int most) {
  app_->add_option(name, value, help)->check(CLI::Range(least, most));
}

void Options::flag(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
}

void Options::texts(const std::string& name, std::vector<std::string>& values, const std::string& help,
                    const std::vector<std::string>& known) {
  CLI::Option* option = app_->add_option(name, values, help)->delimiter(',');
  if (!known.empty()) option->check(CLI::IsMember(known));
}

void Options::numbers(const std::string& name, std::vector<int>& values, const std::string& help, int least,
                      int most) {
  app_->add_option(name, values, help)->delimiter(',')->check(CLI::Range(least, most));
}

void Options::json(std::string& file) { text("--json", file, "write the results to this file"); }

void Options::rounds(int& count, const std::string& help) {
  app_->add_option("--rounds", count, help)->check(CLI::PositiveNumber);
}

void Options::threads(int& count, const std::string& help) {
  app_->add_option("--threads", count, help)->check(CLI::NonNegativeNumber);
}

void Options::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app_->exit(error));
  }
}

}  // namespace genesis::bench
