// The command line of a bench. Only options.cpp includes CLI11, which takes longer to compile than a bench.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace genesis::bench {

// Binds options to variables, which keep their value if an option is not given.
class Options {
 public:
  explicit Options(const std::string& what);  // the first line of --help
  ~Options();

  void text(const std::string& name, std::string& value, const std::string& help);
  // Adds a positional argument, which is required.
  void argument(const std::string& name, std::string& value, const std::string& help);
  void number(const std::string& name, int& value, const std::string& help);
  void number(const std::string& name, int64_t& value, const std::string& help);
  void number(const std::string& name, double& value, const std::string& help);
  void number(const std::string& name, int& value, const std::string& help, int least, int most);
  void flag(const std::string& name, bool& value, const std::string& help);
  // Adds an option with a list, whose items are separated by spaces or commas. Texts must be among `known`, unless it is empty.
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const std::vector<std::string>& known = {});
  void numbers(const std::string& name, std::vector<int>& values, const std::string& help, int least,
               int most);

  // Options of many benches.
  void json(std::string& file);                       // --json FILE
  void rounds(int& count, const std::string& help);   // --rounds N, at least 1
  void threads(int& count, const std::string& help);  // --threads N, at least 0

  // Ends the process after --help, or if the command line is wrong.
  void parse(int argc, char** argv);

 private:
  struct App;
  std::unique_ptr<App> app_;
};

}  // namespace genesis::bench
